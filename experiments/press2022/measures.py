"""Tests a language model on rows longer than its training rows (Press, Smith & Lewis 2022, arXiv 2108.12409).

For each length the same text is cut into rows that do not overlap, and every token counts. With longer rows fewer
tokens have little context (the paper's "early token curse"), so a model that works beyond its training length gains a
little. The loss by position within the longest rows shows where a model fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from attention_research.config import build
from attention_research.training.evaluation import Trained


def losses_at(trained: Trained, length: int, *, tokens: int, split: str = "test") -> Float[np.ndarray, "T"]:
    """The mean loss in nats at each position of rows of `length` tokens, over the first `tokens` tokens of a split,
    rounded up to whole rows."""
    given = trained.config.override([("data.max_length", length)])
    data = build(given.resolved["data"], "data")().prepare()
    rows = max(1, 4096 // length)
    merge, model = trained.trainer.structure.merge, trained.model()

    @jax.jit
    def values(arrays: Any, batch: dict[str, jax.Array]) -> jax.Array:
        return merge(*arrays).log_likelihood(batch)[0]["log_likelihood"]

    found, wanted = [], -(-tokens // length)
    for ids, batch in itertools.islice(data.evaluation_batches(split, rows), -(-wanted // rows)):
        found.append(np.asarray(values(model, batch), np.float64)[np.asarray(ids) >= 0])
    return -np.concatenate(found)[:wanted].mean(axis=0)


def measure_lengths(
    *, workdir: Path, seed: int, factors: Sequence[int], tokens: int, blocks: int = 16, **_: Any
) -> dict[str, Any]:
    """Measures the perplexity at multiples of the training length.

    Returns "perplexity_1", "perplexity_2" and so on; the ratios "ratio_2" and so on to "perplexity_1"; and "by_place",
    the loss in `blocks` equal parts of the longest rows.
    """
    del seed
    trained = Trained(workdir)
    length = trained.config.resolved["data"]["max_length"]
    losses = {factor: losses_at(trained, factor * length, tokens=tokens) for factor in factors}
    perplexity = {factor: math.exp(min(float(loss.mean()), 80.0)) for factor, loss in losses.items()}
    longest = losses[max(factors)]
    return {
        **{f"perplexity_{factor}": value for factor, value in perplexity.items()},
        **{f"ratio_{factor}": value / perplexity[1] for factor, value in perplexity.items() if factor != 1},
        "by_place": [float(part.mean()) for part in np.array_split(longest, blocks)],
    }
