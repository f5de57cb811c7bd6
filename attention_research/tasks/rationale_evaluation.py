"""Scores ratings and rationales: error, number of selected words, and agreement with human annotations.

Lei, Barzilay & Jaakkola 2016, section 6.1: precision is the fraction of selected words that are in a sentence annotated
as the reason, over all selected words of all reviews. `random_precision` is the expected precision of selecting the
same number of words of each review at random.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Array

from attention_research.signatures import Rate
from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.evaluation_protocol import Floor, Metric
from attention_research.tasks.rationale import check_ratings, wanted
from attention_research.tokens import PAD

#: The fractions of a review for which the words with the largest weights are scored.
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8)


class RationaleEvaluation(Evaluation):
    """Scores ratings and rationales of a split.

    With `share`, the rationale is this fraction of the words of each review, namely those with the largest weights. It
    replaces the choice of the model, and defines the rationale of soft attention.
    """

    needs = ("read",)
    metrics = (
        Metric(
            "mean_squared_error",
            "squared error",
            "lower",
            digits=4,
            floor_digits=3,
            floors=(Floor("mean", "mean rating", "constant_error", "the mean rating", "the mean rating's"),),
        ),
        Metric("precision", "precision", "higher"),
        Metric("recall", "recall", "higher"),
        Metric("rationale_f1", "rationale F1", "higher"),
    )

    def __init__(self, *, share: Rate | None = None, **inherited: Any):
        super().__init__(**inherited)
        self.share = share

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"ratings" [B R], "selected" [B S], "weights" [B S]} of a batch. Raises ConfigError as the task does."""
        read = model.read(batch["source"])
        check_ratings(read["ratings"].shape[1], wanted(batch).shape[1])
        return {name: read[name] for name in ("ratings", "selected", "weights")}

    def chosen(self, outputs: Mapping[str, np.ndarray], row: int, words: int) -> np.ndarray:
        """The mask of the words that form the rationale of a review."""
        if self.share is None:
            return np.asarray(outputs["selected"][row, :words])
        return heaviest(outputs["weights"][row, :words], self.share)

    def score(
        self, triples: Iterable[tuple[np.ndarray, Mapping[str, Array], Mapping[str, np.ndarray]]], data: Any
    ) -> Scores:
        """The scores, in percent except for the error. `data` is unused. See `scores`."""
        reviews = []
        for ids, batch, outputs in triples:
            source, truth = np.asarray(batch["source"]), np.asarray(wanted(batch))
            for row in np.flatnonzero(ids >= 0).tolist():
                words = int(np.sum(source[row] != PAD))
                reviews.append({
                    "predicted": np.asarray(outputs["ratings"][row], np.float64),
                    "rating": np.asarray(truth[row], np.float64),
                    "selected": self.chosen(outputs, row, words),
                    "weights": np.asarray(outputs["weights"][row, :words]),
                    "gold": np.asarray(batch["gold"][row, :words], bool) if "gold" in batch else None,
                })  # fmt: skip
        return scores(reviews)

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floor: the mean rating."""
        from attention_research.tasks.floors.labels import rating_floors

        return rating_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        said = f"squared error {scores['mean_squared_error']:.4f}, of the mean {scores['constant_error']:.4f}"
        said += f" · {scores['selected_share']:.1f} % of the words in {scores['spans']:.1f} spans"
        if "precision" in scores:
            said += f" · precision {scores['precision']:.1f}, at random {scores['random_precision']:.1f}"
        return said


def heaviest(weights: np.ndarray, share: float) -> np.ndarray:
    """The mask of the words with the largest weights, at least one. Of equal weights, the earlier words are taken.

    >>> heaviest(np.array([0.1, 0.5, 0.3, 0.1]), 0.5).tolist()
    [False, True, True, False]
    """
    taken = np.zeros(len(weights), bool)
    taken[np.argsort(-weights, kind="stable")[: max(round(share * len(weights)), 1)]] = True
    return taken


def spans(selected: np.ndarray) -> int:
    """The number of runs of consecutive selected words.

    >>> spans(np.array([True, True, False, True]))
    2
    """
    return int(np.sum(selected[1:] & ~selected[:-1]) + np.sum(selected[:1]))


def scores(reviews: list[dict[str, Any]]) -> Scores:
    """The scores of reviews with "predicted" and "rating" [R], "selected" and "weights" [S], and "gold" [S] or None.

    The scores are `mean_squared_error`; `constant_error`, the error of the mean rating; `accuracy` (only if all ratings
    are 0 or 1), the percentage of predictions on the right side of 0.5; `selected_share` in percent; and the numbers of
    `spans` and `words` per review. With "gold", they also have `precision`, `recall`, `rationale_f1` and
    `random_precision`, and `precision_at`, the precision of the words with the largest weights at each of `SHARES`.
    Undefined scores are left out.
    """
    truth, said = (np.stack([one[name] for one in reviews]) for name in ("rating", "predicted"))
    sizes = np.array([len(one["selected"]) for one in reviews])
    taken = np.array([np.sum(one["selected"]) for one in reviews])
    found: dict[str, Any] = {
        "mean_squared_error": float(np.mean(np.square(said - truth))),
        "constant_error": float(np.mean(np.square(truth.mean(axis=0) - truth))),
        "selected_share": 100.0 * float(taken.sum() / sizes.sum()),
        "spans": float(np.mean([spans(one["selected"]) for one in reviews])),
        "words": float(sizes.mean()),
        "reviews": len(reviews),
    }
    if np.isin(truth, (0.0, 1.0)).all():
        found["accuracy"] = 100.0 * float(np.mean((said > 0.5) == (truth > 0.5)))
    if reviews[0]["gold"] is not None:
        found |= _against_gold(reviews, sizes, taken)
    return found


def _against_gold(reviews: list[dict[str, Any]], sizes: np.ndarray, taken: np.ndarray) -> dict[str, Any]:
    gold = np.array([np.sum(one["gold"]) for one in reviews])
    right = lambda choice: sum(int(np.sum(choice(one) & one["gold"])) for one in reviews)
    own = right(lambda one: one["selected"])
    found: dict[str, Any] = {"gold_share": 100.0 * gold.sum() / sizes.sum()}
    if gold.sum():
        found["recall"] = 100.0 * own / gold.sum()
    if taken.sum() + gold.sum():
        found["rationale_f1"] = 200.0 * own / (taken.sum() + gold.sum())
    if taken.sum():
        found["precision"] = 100.0 * own / taken.sum()
        found["random_precision"] = 100.0 * np.sum(taken * gold / sizes) / taken.sum()
    at = []
    for share in SHARES:
        choices = [heaviest(one["weights"], share) for one in reviews]
        hits = sum(int(np.sum(choice & one["gold"])) for choice, one in zip(choices, reviews, strict=True))
        words = sum(int(choice.sum()) for choice in choices)
        at.append([100.0 * words / sizes.sum(), 100.0 * hits / words])
    found["precision_at"] = [[float(x) for x in pair] for pair in at]
    return {name: float(x) if np.ndim(x) == 0 else x for name, x in found.items()}
