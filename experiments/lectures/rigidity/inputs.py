"""Inputs of `readers` as fixed vectors that are not learned: text, images and sets of numbers.

    name                        vectors                                 task
    sentences                   word vectors of a pre-trained encoder   sentiment of a sentence of a film review
    digits                      pixels of 4 x 4 patches                 class of a handwritten digit (MNIST)
    largest, count, duplicate   sinusoids of a number                   question about a set of numbers (`sets.tasks`)

The sinusoids of two numbers are more similar if the numbers are closer. A word and a patch also have their position
(row and column of a patch) as sinusoids, concatenated to their own coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.data import sources
from attention_research.data.pixels import SIDE, Pixels
from attention_research.kernels import sinusoidal_positions
from attention_research.tokens import PAD
from attention_research.weights import load
from attention_research.weights.packaged import folder_of

from ..sets import tasks as set_tasks

INPUTS = ("sentences", "digits", *set_tasks.TASKS)
#: The numbers of coordinates for the position of a word or patch, and for a number.
PLACE, NUMBER = 16, 16
PATCH = 4
#: The batch size of test examples.
TOGETHER = 256


class Inputs(NamedTuple):
    """Inputs of a task: ``draw(key, rows)`` returns a dict of "x" [B T D], "real" [B T] and "label" [B]; `test` holds
    such batches of the test examples."""

    width: int
    classes: int
    draw: Callable[[Key[Array, ""], int], dict[str, Array]]
    test: Callable[[Key[Array, ""]], Iterator[dict[str, Array]]]


def open_inputs(
    name: str, *, checkpoint: str, sentences: str, longest: int, sets: tuple[int, int, int], examples: int, **_: Any
) -> Inputs:
    """Opens inputs by name. For sets of numbers, `examples` test sets are drawn; for text and digits the whole test
    split is used.

    Raises ValueError for an unknown name.
    """
    if name == "sentences":
        return _sentences(checkpoint, sentences, longest)
    if name == "digits":
        return _digits()
    if name in set_tasks.TASKS:
        return _numbers(name, set_tasks.Sets(*sets), examples)
    raise ValueError(f"{name!r}: expected one of {', '.join(INPUTS)}")


def patches(images: Float[np.ndarray, "E 784"]) -> Float[np.ndarray, "E 49 16"]:
    """Cuts images into patches of 4 x 4 pixels, row by row."""
    across = SIDE // PATCH
    cut = images.reshape(-1, across, PATCH, across, PATCH).transpose(0, 1, 3, 2, 4)
    return cut.reshape(-1, across * across, PATCH * PATCH)


def _digits() -> Inputs:
    splits = [Pixels(max_length=SIDE * SIDE).arrays(split) for split in ("train", "test")]
    held_out = np.repeat([False, True], [len(one["label"]) for one in splits])
    pixels, labels = (np.concatenate([one[name] for one in splits]) for name in ("source", "label"))
    tokens = jnp.asarray(patches((pixels - 1) / np.float32(255)))
    across = SIDE // PATCH
    codes = np.asarray(sinusoidal_positions(across, PLACE // 2))
    rows, columns = np.divmod(np.arange(across * across), across)
    places = np.concatenate([codes[rows], codes[columns]], axis=-1)
    real = np.ones(tokens.shape[:2], bool)
    return _stored(lambda rows: tokens[rows], tokens.shape[-1], places, real, labels, held_out)


def _sentences(checkpoint: str, name: str, longest: int) -> Inputs:
    sources.prepare(name)
    loaded = load(folder_of(checkpoint))
    splits = {split: sources.open_split(name, split) for split in ("train", "test")}
    texts = [there[number] for there in splits.values() for number in range(len(there))]
    held_out = np.repeat([False, True], [len(there) for there in splits.values()])
    ids = np.zeros((len(texts), longest), np.int32)
    for row, found in zip(ids, loaded.tokenizer().encode([one["text"] for one in texts]), strict=True):
        row[: len(found[:longest])] = found[:longest]
    labels = np.asarray([("negative", "positive").index(one["label"]) for one in texts], np.int32)
    used, rows = np.unique(ids, return_inverse=True)
    table, tokens = loaded.parameters["vocabulary.table"][used], jnp.asarray(rows.reshape(ids.shape), jnp.int32)
    places = np.asarray(sinusoidal_positions(longest, PLACE))
    return _stored(lambda rows: table[tokens[rows]], table.shape[-1], places, ids != PAD, labels, held_out)


def _stored(
    vectors: Callable[[Array], Array],
    width: int,
    places: Float[np.ndarray, "T P"],
    real: Bool[np.ndarray, "E T"],
    labels: Int[np.ndarray, "E"],
    held_out: Bool[np.ndarray, "E"],
) -> Inputs:
    """Inputs from stored examples: ``vectors(rows)`` [B T width], concatenated with the positions."""
    train, test = (jnp.asarray(np.flatnonzero(held_out == held), jnp.int32) for held in (False, True))
    seen, answers, where = jnp.asarray(real), jnp.asarray(labels), jnp.asarray(places)

    def batch(rows: Int[Array, "B"]) -> dict[str, Array]:
        x = vectors(rows)
        codes = jnp.broadcast_to(where, (*x.shape[:2], where.shape[-1]))
        return {"x": jnp.concatenate([x, codes], axis=-1), "real": seen[rows], "label": answers[rows]}

    draw = lambda key, rows: batch(jax.random.choice(key, train, (rows,)))
    tested = lambda key: (batch(test[start : start + TOGETHER]) for start in range(0, len(test), TOGETHER))
    return Inputs(width + places.shape[-1], int(labels.max()) + 1, draw, tested)


def _numbers(task: str, sets: set_tasks.Sets, examples: int) -> Inputs:
    table = sinusoidal_positions(sets.symbols + 1, NUMBER)

    def draw(key: Key[Array, ""], rows: int) -> dict[str, Array]:
        tokens = set_tasks.draw(task, sets, rows, key)
        return {"x": table[tokens], "real": tokens != PAD, "label": set_tasks.answers(task, tokens)}

    return Inputs(NUMBER, set_tasks.classes(task, sets), draw, lambda key: iter([draw(key, examples)]))
