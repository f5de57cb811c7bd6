"""Questions about unordered sets, drawn with their answers: the largest element, how often one symbol occurs, whether
any occurs twice (after Zaheer et al. 2017, arXiv 1703.06114: a function of a set does not change with the order in
which it is read).

A set (with repetitions) is a row of symbols 1 .. V, its size drawn between two bounds, 0 behind it. Sizes, largest
elements and counts are uniform, a duplicate is there half of the time.
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
    """How many symbols there are and how many elements a set has; `symbols` is at least `largest`."""

    symbols: int = 16
    smallest: int = 4
    largest: int = 10


def classes(task: str, sets: Sets) -> int:
    """How many answers a task has; they are 0, 1, ..."""
    return {"largest": sets.symbols + 1, "count": sets.largest + 1, "duplicate": 2}[task]


def answers(task: str, tokens: Int[Array, "B T"]) -> Int[Array, "B"]:
    """The right answer about each row."""
    if task == "largest":
        return tokens.max(axis=1)
    if task == "count":
        return jnp.sum(tokens == COUNTED, axis=1, dtype=jnp.int32)
    ordered = jnp.sort(tokens, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PAD)
    return twice.any(axis=1).astype(jnp.int32)


def draw(task: str, sets: Sets, rows: int, key: Key[Array, ""]) -> Int[Array, "B T"]:
    """Rows of a task, in no order that says anything. Raises ValueError for a task that is none of `TASKS`."""
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
    """The elements of each row in a random order of its own, padding behind them."""
    return _by(tokens, jax.random.uniform(key, tokens.shape))


def ascending(tokens: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The elements of each row from the smallest to the largest, padding behind them."""
    return _by(tokens, tokens.astype(jnp.float32))


def _by(tokens: Int[Array, "B T"], rank: Float[Array, "B T"]) -> Int[Array, "B T"]:
    real: Bool[Array, "B T"] = tokens != PAD
    return jnp.take_along_axis(tokens, jnp.argsort(jnp.where(real, rank, jnp.inf), axis=1), axis=1)
