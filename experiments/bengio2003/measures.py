"""Perplexities of the rows of `table1`: n-gram models by counts, trained networks, and both mixed.

Every token of a split counts, with the tokens of the split before it as its history. A split begins a new text.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Integer

from attention_research.config import build, load
from attention_research.data.tokens import TokenArray
from attention_research.tasks.floors.kneser_ney import KneserNey
from attention_research.training.evaluation import Trained

from .classes import ClassModel, exchanged
from .deleted_interpolation import DeletedInterpolation

SPLITS = ("train", "validation", "test")
#: The order of the Kneser-Ney model of the ratios.
REFERENCE_ORDER = 5


class Text(NamedTuple):
    """The token ids of the splits, and the size of the vocabulary."""

    train: Integer[np.ndarray, "n"]
    validation: Integer[np.ndarray, "n"]
    test: Integer[np.ndarray, "n"]
    size: int


def text_of(data: Any, tokens: int | None) -> Text:
    """The text of a data set, or its first `tokens` tokens of each split."""
    train, validation, test = (np.asarray(data.stream(split)[:tokens], np.int64) for split in SPLITS)
    return Text(train, validation, test, data.tokenizer.size)


@functools.cache
def opened(config: str, tokens: int | None) -> Text:
    """The text of a config, as in `text_of`."""
    return text_of(build(load(config).resolved["data"], "data")().prepare(), tokens)


def perplexity(p: Float[np.ndarray, "n"]) -> float:
    """exp of the mean of -log p."""
    return math.exp(-float(np.mean(np.log(p))))


def kneser_ney(text: Text, order: int, split: str) -> Float[np.ndarray, "n"]:
    """p of each token of a split under interpolated modified Kneser-Ney."""
    model = KneserNey(TokenArray.join([text.train]), text.size, order)
    of_split = TokenArray.join([getattr(text, split)])
    return model.probabilities(model.history(of_split), np.asarray(of_split.flat, np.int64))


def compared(text: Text, test: float) -> dict[str, float]:
    """`ratio`, the perplexity of the test split divided by that of Kneser-Ney with n = 5."""
    return {"ratio": test / perplexity(kneser_ney(text, REFERENCE_ORDER, "test"))}


def measure_kneser_ney(*, config: str, tokens: int | None, order: int, **_: Any) -> dict[str, float]:
    """`validation` and `test` perplexity, and `ratio`, of Kneser-Ney with n = `order`."""
    text = opened(config, tokens)
    found = {split: perplexity(kneser_ney(text, order, split)) for split in SPLITS[1:]}
    return {**found, **compared(text, found["test"])}


def measure_deleted_interpolation(*, config: str, tokens: int | None, **_: Any) -> dict[str, float]:
    """The perplexities `training`, `validation` and `test`, and `ratio`, of the interpolated trigram. Its weights are
    fitted on the validation split."""
    text = opened(config, tokens)
    model = DeletedInterpolation(text.train, text.validation, text.size)
    train, validation, test = (perplexity(model.probabilities(part)) for part in text[:3])
    return {"training": train, "validation": validation, "test": test, **compared(text, test)}


def measure_classes(*, config: str, tokens: int | None, order: int, classes: int, **_: Any) -> dict[str, float]:
    """`validation` and `test` perplexity, and `ratio`, of a class-based model with n = `order`."""
    text = opened(config, tokens)
    model = ClassModel(text.train, exchanged(text.train, text.size, classes), order)
    found = {split: perplexity(model.probabilities(getattr(text, split))) for split in SPLITS[1:]}
    return {**found, **compared(text, found["test"])}


def measure_network(*, workdir: Path, tokens: int | None, **_: Any) -> dict[str, float]:
    """The perplexities of a trained network and of its mixture with the interpolated trigram.

    `training`, `validation`, `test` and `ratio` are those of the network. `mixed_validation`, `mixed_test` and
    `mixed_ratio` are those of the mean of the two probabilities of each token.
    """
    trained = Trained(workdir)
    text = text_of(trained.data, tokens)
    trigram = DeletedInterpolation(text.train, text.validation, text.size)
    found: dict[str, float] = {}
    for split, name in zip(SPLITS, ("training", "validation", "test"), strict=True):
        part = getattr(text, split)
        p = np.exp(log_probabilities(trained, split, len(part)))
        found[name] = perplexity(p)
        if split != "train":
            found[f"mixed_{name}"] = perplexity((p + trigram.probabilities(part)) / 2)
    reference = compared(text, 1.0)["ratio"]
    return {**found, "ratio": reference * found["test"], "mixed_ratio": reference * found["mixed_test"]}


def log_probabilities(trained: Trained, split: str, tokens: int) -> Float[np.ndarray, "n"]:
    """log p of the first `tokens` tokens of a split under a trained model, in their order."""
    merge, model = trained.trainer.structure.merge, trained.model()

    @jax.jit
    def values(arrays: Any, batch: dict[str, jax.Array]) -> jax.Array:
        return merge(*arrays).log_likelihood(batch)[0]["log_likelihood"]

    found, size = [], 0
    for _, batch in trained.data.evaluation_batches(split, trained.evaluation.batch_size):
        real = batch["target"] != 0
        found.append(np.asarray(values(model, batch), np.float64)[real])
        size += len(found[-1])
        if size >= tokens:
            break
    return np.concatenate(found)[:tokens]
