"""Random questions about unordered sets with their answers: the largest element, how often one symbol occurs, and
whether any symbol occurs twice.

The tasks follow Zaheer et al. 2017 (arXiv 1703.06114): a function of a set does not depend on the order of its
elements. A set (with repetitions) is a row of symbols 1 .. V, padded with 0. Its size is drawn between two bounds.
Sizes, largest elements and counts are uniform, and half of the sets of the duplicate task have a duplicate.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.tokens import PAD

TASKS = ("largest", "count", "duplicate")
#: The symbol that is counted.
COUNTED = 1


class Sets(NamedTuple):
    """The number of symbols and the bounds of the size of a set. `symbols` is at least `largest`."""

    symbols: int = 16
    smallest: int = 4
    largest: int = 10


def classes(task: str, sets: Sets) -> int:
    """The number of answers of a task. The answers are 0, 1, ..."""
    return {"largest": sets.symbols + 1, "count": sets.largest + 1, "duplicate": 2}[task]


def answers(task: str, tokens: Int[Array, "B T"]) -> Int[Array, "B"]:
    """Returns the right answer for each row."""
    if task == "largest":
        return tokens.max(axis=1)
    if task == "count":
        return jnp.sum(tokens == COUNTED, axis=1, dtype=jnp.int32)
    ordered = jnp.sort(tokens, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PAD)
    return twice.any(axis=1).astype(jnp.int32)


def draw(task: str, sets: Sets, rows: int, key: Key[Array, ""]) -> Int[Array, "B T"]:
    """Draws rows of a task. Their order is random. Raises ValueError for a task that is not in `TASKS`."""
    keys = jax.random.split(key, 4)
    T, V = sets.largest, sets.symbols
    size = jax.random.randint(keys[0], (rows, 1), sets.smallest, T + 1)
    place = jnp.arange(T, dtype=jnp.int32)[None]
    if task == "largest":
        top = jax.random.randint(keys[1], (rows, 1), 1, V + 1)
        tokens = jnp.where(place == 0, top, jax.random.randint(keys[2], (rows, T), 1, top + 1))
    elif task == "count":
        count = jax.random.randint(keys[1], (rows, 1), 0, size + 1)
        tokens = jnp.where(place < count, COUNTED, jax.random.randint(keys[2], (rows, T), COUNTED + 1, V + 1))
    elif task == "duplicate":
        different = jnp.argsort(jax.random.uniform(keys[1], (rows, V)), axis=1)[:, :T].astype(jnp.int32) + 1
        twice = jax.random.bernoulli(keys[2], 0.5, (rows, 1)) & (place == 1)
        tokens = jnp.where(twice, different[:, :1], different)
    else:
        raise ValueError(f"{task!r}: expected one of {', '.join(TASKS)}")
    return shuffled(jnp.where(place < size, tokens, PAD), keys[3])


def shuffled(tokens: Int[Array, "B T"], key: Key[Array, ""]) -> Int[Array, "B T"]:
    """Shuffles the elements of each row independently; the padding stays at the end."""
    return _by(tokens, jax.random.uniform(key, tokens.shape))


def ascending(tokens: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """Sorts the elements of each row in ascending order; the padding stays at the end."""
    return _by(tokens, tokens.astype(jnp.float32))


def _by(tokens: Int[Array, "B T"], rank: Float[Array, "B T"]) -> Int[Array, "B T"]:
    real: Bool[Array, "B T"] = tokens != PAD
    return jnp.take_along_axis(tokens, jnp.argsort(jnp.where(real, rank, jnp.inf), axis=1), axis=1)
