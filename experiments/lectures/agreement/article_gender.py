"""Measures whether a translation model chooses the gender of an article correctly, by the distance of its noun.

For a run on `data.articles`, the decoder reads the reference up to an article, before the noun is written. The model is
right if it gives the correct form of the article a higher probability than the form of the other gender. Chance is one
half.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.analysis.by_length import sample
from attention_research.data.articles import OTHER, agreements
from attention_research.training.evaluation import Trained
from attention_research.training.readings import first

from .few_source_words import source_weights

_ROWS = 64


def swapped(target: str, place: int) -> str:
    """Returns the target with the article at position `place` replaced by the article of the other gender.

    >>> swapped("le petit chien trouve une maison", 4)
    'le petit chien trouve un maison'
    """
    words = target.split()
    return " ".join([*words[:place], OTHER[words[place]], *words[place + 1 :]])


def of_pairs(
    trained: Trained, sources: Sequence[str], targets: Sequence[str]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For each pair: log p of each target token [T], and weights over source tokens [T S], averaged over layers and
    heads."""
    merge, length = trained.trainer.structure.merge, trained.config.resolved["data"]["max_length"]

    @jax.jit
    def of_batch(arrays: Any, batch: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        values, collected = merge(*arrays).log_likelihood(batch)
        return values["log_likelihood"], source_weights(collected).mean(axis=0)

    found: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for start in range(0, len(sources), _ROWS):
        batch = {name: np.zeros((_ROWS, length), np.int32) for name in ("source", "target")}
        texts = {"source": sources[start : start + _ROWS], "target": targets[start : start + _ROWS]}
        for name, sentences in texts.items():
            for row, ids in enumerate(first(one, length) for one in trained.data.read(sentences)):
                batch[name][row, : len(ids)] = ids
        for kept, values in zip(found, of_batch(trained.model(), batch), strict=True):
            kept += list(np.asarray(values, np.float64)[: len(texts["source"])])
    return found


def by_distance(distances: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Returns the distances that occur, and the mean value at each distance.

    >>> by_distance([0, 2, 0], [1.0, 0.5, 0.0])
    ([0, 2], [0.5, 0.5])
    """
    there = sorted(set(distances))
    means = [np.mean([value for d, value in zip(distances, values, strict=True) if d == one]) for one in there]
    return there, [float(mean) for mean in means]


def measure_gender(*, workdir: Path, seed: int, examples: int, **_: Any) -> dict[str, Any]:
    """Measures a trained run over the articles of test sentences.

    "gender" is the share of articles with the right gender. "gender_by_distance" and "noun_mass" (the attention from
    the article to its noun) have one value for each of "distances", the numbers of words between article and noun.
    "near" and "far" are the shares for the shortest and the longest third of distances, and "drop" is their difference.
    """
    del seed
    trained = Trained(workdir)
    sources, targets = trained.data.text("test")
    chosen = sample(len(sources), examples)
    sources, targets = [sources[i] for i in chosen], [targets[i] for i in chosen]
    asked = [(i, *places) for i, source in enumerate(sources) for places in agreements(source)]
    right, weights = of_pairs(trained, sources, targets)
    wrong, _ = of_pairs(trained, [sources[i] for i, *_ in asked], [swapped(targets[i], at) for i, at, _ in asked])
    correct = [float(right[i][at] > other[at]) for (i, at, _), other in zip(asked, wrong, strict=True)]
    looked = [float(weights[i][at, noun]) for i, at, noun in asked]
    between = [noun - at - 1 for _, at, noun in asked]
    distances, shares = by_distance(between, correct)
    third = max(1, len(distances) // 3)
    mean_of = lambda some: float(np.mean([one for one, d in zip(correct, between, strict=True) if d in some]))
    near, far = mean_of(distances[:third]), mean_of(distances[-third:])
    return {
        "gender": float(np.mean(correct)),
        "near": near,
        "far": far,
        "drop": near - far,
        "distances": distances,
        "gender_by_distance": shares,
        "noun_mass": by_distance(between, looked)[1],
    }
