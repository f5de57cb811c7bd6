"""How attention aligns two sentences, against a gold word alignment and by itself.

Weights are [T S]: row t is what target token t attends to. Links are pairs (source, target), counted from 0, as a gold
alignment has them. A row's link is where its weight is largest (the first of equals); a row of zeros has none, nor has
one that looks at a position behind the words (the end of the sentence).

Alignment error rate (Och & Ney 2003): 1 - (|A and S| + |A and P|) / (|A| + |S|), with sure links S, possible links P
(S among them) and the alignment's links A; over a corpus the counts are summed first. With S = P, which is what a
generated set has, it is 1 - F1 of the links.
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
    """One link a row: to the source position with the largest weight, where that is below `size`."""
    size = weights.shape[1] if size is None else size
    found = ((int(np.argmax(row)), target) for target, row in enumerate(weights) if np.max(row, initial=0.0) > 0)
    return {(source, target) for source, target in found if source < size}


def alignment_error_rate(
    found: Sequence[Iterable[Link]], sure: Sequence[Iterable[Link]], possible: Sequence[Iterable[Link]] | None = None
) -> float:
    """The rate over a corpus, a set of links a sentence; `possible` are the sure links where it is not given.

    0 is a perfect alignment, 1 one without a right link, and also where there is no link at all.
    """
    matched = total = 0
    for ours, gold, might in zip(found, sure, sure if possible is None else possible, strict=True):
        ours, gold, might = set(ours), set(gold), set(might) | set(gold)
        matched += len(ours & gold) + len(ours & might)
        total += len(ours) + len(gold)
    return 1.0 - matched / total if total else 1.0


def accuracy(found: Sequence[Iterable[Link]], gold: Sequence[Iterable[Link]]) -> float:
    """Share of the target words with a gold link whose own link is one of theirs; nan without any."""
    right = total = 0
    for ours, theirs in zip(found, gold, strict=True):
        total += len({target for _, target in theirs})
        right += len({target for _, target in set(ours) & set(theirs)})
    return right / total if total else float("nan")


def reordered(gold: Iterable[Link]) -> set[Link]:
    """The links that cross another one: their words stand in another order in the two sentences.

    >>> sorted(reordered([(0, 0), (1, 2), (2, 1), (3, 3)]))
    [(1, 2), (2, 1)]
    """
    gold = set(gold)
    return {(s, t) for s, t in gold if any((s - other_s) * (t - other_t) < 0 for other_s, other_t in gold)}


def inside_reordered(found: Sequence[Iterable[Link]], gold: Sequence[Iterable[Link]]) -> tuple[float, float]:
    """(precision, recall) over the target words of reordered gold links; nan where nothing is counted."""
    right = given = wanted = 0
    for ours, theirs in zip(found, gold, strict=True):
        crossing = reordered(theirs)
        targets = {target for _, target in crossing}
        inside = {link for link in ours if link[1] in targets}
        # A word may also have a link that crosses none: with it the word is aligned rightly, too.
        right += len(inside & set(theirs))
        given += len(inside)
        wanted += len({link for link in theirs if link[1] in targets})
    return (right / given if given else float("nan")), (right / wanted if wanted else float("nan"))


def diagonality(weights: np.ndarray) -> float:
    """1 less the mean distance, in shares of the length, of what is attended from the diagonal; 1 on the diagonal.

    Of row t the distance |s / (S - 1) - t / (T - 1)|, meant over the row's weights as shares; rows of zeros do not
    count. Evenly spread weights have about 2/3. nan where there is no row.
    """
    T, S = weights.shape
    totals = weights.sum(axis=1)
    if not np.any(totals > 0):
        return float("nan")
    distances = np.abs(np.arange(S)[None] / max(1, S - 1) - np.arange(T)[:, None] / max(1, T - 1))
    rows = (weights * distances).sum(axis=1)[totals > 0] / totals[totals > 0]
    return 1.0 - float(rows.mean())


def monotone_steps(weights: np.ndarray) -> float:
    """Share of the steps from row to row that do not go back; rows of zeros are left out; nan without a step."""
    places = [int(np.argmax(row)) for row in weights if np.max(row, initial=0.0) > 0]
    steps = [after >= before for before, after in zip(places, places[1:], strict=False)]
    return sum(steps) / len(steps) if steps else float("nan")


def described(weights: Sequence[np.ndarray]) -> dict[str, float]:
    """`diagonality` and `monotone_steps`, means over sentences."""
    mean = lambda values: statistics.fmean(known) if (known := [v for v in values if v == v]) else float("nan")
    return {
        "diagonality": mean(map(diagonality, weights)),
        "monotone_steps": mean(map(monotone_steps, weights)),
    }


def against_gold(weights: Sequence[np.ndarray], gold: Sequence[Iterable[Link]]) -> dict[str, float]:
    """All of the above over a corpus; the weights' columns are the source words (and what comes behind them)."""
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
    """(example id, weights [T S]) of a trained recurrent model over a split, reading the gold target.

    Both lengths are those of the tokens, the end of sentence included. The weights are `log_likelihood`'s
    ``{"decoder": {"alignment": [B T S]}}``; a Transformer's maps are `analysis.attention`'s.
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
