"""Measures how attention aligns two sentences, with and without a gold word alignment.

Weights have shape [T S]: row t has the attention of target token t. Links are pairs (source, target), counted from 0,
as in a gold alignment. The link of a row is the source position with the largest weight (the first one of equal
weights). A row of zeros has no link, and neither has a row with its maximum after the words (at the end of the
sentence).

The alignment error rate (Och & Ney 2003) is 1 - (|A and S| + |A and P|) / (|A| + |S|), with sure links S, possible
links P (which include S) and the links A of the alignment. Over a corpus, the counts are summed first. If S = P, as in
generated data, it equals 1 - F1 of the links.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained

#: (source, target)
Link = tuple[int, int]


def links(weights: np.ndarray, size: int | None = None) -> set[Link]:
    """The links of an alignment: for each row the source position with the largest weight, if it is below `size`."""
    size = weights.shape[1] if size is None else size
    found = ((int(np.argmax(row)), target) for target, row in enumerate(weights) if np.max(row, initial=0.0) > 0)
    return {(source, target) for source, target in found if source < size}


def alignment_error_rate(
    found: Sequence[Iterable[Link]], sure: Sequence[Iterable[Link]], possible: Sequence[Iterable[Link]] | None = None
) -> float:
    """The alignment error rate over a corpus, with one set of links per sentence. `possible` defaults to `sure`.

    A perfect alignment has rate 0. An alignment without a correct link has rate 1, and so has a corpus without links.
    """
    matched = total = 0
    for ours, gold, might in zip(found, sure, sure if possible is None else possible, strict=True):
        ours, gold, might = set(ours), set(gold), set(might) | set(gold)
        matched += len(ours & gold) + len(ours & might)
        total += len(ours) + len(gold)
    return 1.0 - matched / total if total else 1.0


def accuracy(found: Sequence[Iterable[Link]], gold: Sequence[Iterable[Link]]) -> float:
    """The fraction of the target words with gold links whose link is one of them. NaN if there are no such words."""
    right = total = 0
    for ours, theirs in zip(found, gold, strict=True):
        total += len({target for _, target in theirs})
        right += len({target for _, target in set(ours) & set(theirs)})
    return right / total if total else float("nan")


def reordered(gold: Iterable[Link]) -> set[Link]:
    """The links that cross another link: the order of their words differs between the two sentences.

    >>> sorted(reordered([(0, 0), (1, 2), (2, 1), (3, 3)]))
    [(1, 2), (2, 1)]
    """
    gold = set(gold)
    return {(s, t) for s, t in gold if any((s - other_s) * (t - other_t) < 0 for other_s, other_t in gold)}


def inside_reordered(found: Sequence[Iterable[Link]], gold: Sequence[Iterable[Link]]) -> tuple[float, float]:
    """(precision, recall) over the target words of reordered gold links. NaN if there are none."""
    right = given = wanted = 0
    for ours, theirs in zip(found, gold, strict=True):
        crossing = reordered(theirs)
        targets = {target for _, target in crossing}
        inside = {link for link in ours if link[1] in targets}
        # A word may also have a gold link without a crossing. This link counts as correct too.
        right += len(inside & set(theirs))
        given += len(inside)
        wanted += len({link for link in theirs if link[1] in targets})
    return (right / given if given else float("nan")), (right / wanted if wanted else float("nan"))


def diagonality(weights: np.ndarray) -> float:
    """1 minus the mean distance of the attention from the diagonal, relative to the length. 1 means on the diagonal.

    The distance in row t is |s / (S - 1) - t / (T - 1)|, averaged with the normalized weights of the row. Rows of zeros
    are ignored. Uniform weights give about 2/3. The result is NaN if there are no other rows.
    """
    T, S = weights.shape
    totals = weights.sum(axis=1)
    if not np.any(totals > 0):
        return float("nan")
    distances = np.abs(np.arange(S)[None] / max(1, S - 1) - np.arange(T)[:, None] / max(1, T - 1))
    rows = (weights * distances).sum(axis=1)[totals > 0] / totals[totals > 0]
    return 1.0 - float(rows.mean())


def monotone_steps(weights: np.ndarray) -> float:
    """The fraction of steps between consecutive rows whose link does not move backwards. Rows of zeros are skipped. NaN
    if there are no steps."""
    places = [int(np.argmax(row)) for row in weights if np.max(row, initial=0.0) > 0]
    steps = [after >= before for before, after in zip(places, places[1:], strict=False)]
    return sum(steps) / len(steps) if steps else float("nan")


def described(weights: Sequence[np.ndarray]) -> dict[str, float]:
    """The means of `diagonality` and `monotone_steps` over sentences."""
    mean = lambda values: statistics.fmean(known) if (known := [v for v in values if v == v]) else float("nan")
    return {
        "diagonality": mean(map(diagonality, weights)),
        "monotone_steps": mean(map(monotone_steps, weights)),
    }


def against_gold(weights: Sequence[np.ndarray], gold: Sequence[Iterable[Link]]) -> dict[str, float]:
    """All measures above over a corpus. The columns of the weights are the source words, followed by other tokens.

    The last source word and the last target word of a sentence must have gold links, as in generated sentences. Rows
    and columns after the last word with a gold link count as other tokens.
    """
    found = []
    for one, theirs in zip(weights, gold, strict=True):
        words = {s for s, _ in theirs}, {t for _, t in theirs}
        size, rows = (max(side, default=-1) + 1 for side in words)
        found.append(links(one[:rows], size))
    precision, recall = inside_reordered(found, gold)
    return {
        "alignment_error_rate": alignment_error_rate(found, gold),
        "alignment_accuracy": accuracy(found, gold),
        "reordered_precision": precision,
        "reordered_recall": recall,
        **described(weights),
    }


def of_split(
    trained: Trained, split: str, examples: int | None = None, batch_size: int = 64
) -> Iterator[tuple[int, np.ndarray]]:
    """(example id, weights [T S]) of a trained recurrent model over a split, with the gold target as decoder input.

    Both lengths count tokens, including the end of sentence. The weights are ``{"decoder": {"alignment": [B T S]}}`` of
    `log_likelihood`. For the maps of a Transformer, see `analysis.attention`.
    """
    structure = trained.trainer.structure

    @jax.jit
    def weights(model: tuple[Any, Any], batch: dict[str, jax.Array]) -> jax.Array:
        return structure.merge(*model).log_likelihood(batch)[1]["decoder"]["alignment"]

    model = trained.model()
    for ids, batch in trained.data.evaluation_batches(split, batch_size, examples):
        found = np.asarray(weights(model, batch), np.float32)
        for row, example in enumerate(ids.tolist()):
            if example >= 0:
                T, S = (int(np.sum(batch[name][row] != PAD)) for name in ("target", "source"))
                yield example, found[row, :T, :S]
