"""The verdicts of `lectures/nonlinearity`."""

from __future__ import annotations

import itertools
import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, compare, conclude, decide

#: The numbers of layers of the trained models.
DEPTHS = (1, 2, 4)
#: Vectors count as alike if their distance is below ALIKE, and as not more alike than at the input if their distance is
#: above KEPT times that of the input.
ALIKE, KEPT = 0.01, 0.5
#: Below this, float32 cannot represent the difference, and the distance does not have to decrease further.
LOST = 1e-6


def curves(results: Results, row: str, name: str = "distances") -> list[list[float]]:
    """Returns the distances by depth, one list for each seed."""
    return [list(curve) for curve in results.values(row, f"measure.{name}")]


def mean_curve(results: Results, row: str, name: str = "distances") -> list[float]:
    """Returns the means over seeds by depth; the list is empty if nothing is measured."""
    return [statistics.fmean(at) for at in zip(*curves(results, row, name), strict=True)]


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def averages(results: Results) -> Verdict:
    """The distance decreases at every layer of attention alone, and the vectors end alike, in every seed. They also
    end alike with a residual connection."""
    alone, residual = curves(results, "attention"), curves(results, "attention_residual")
    falls = lambda one: all(later < before or later < LOST for before, later in itertools.pairwise(one))
    alike = lambda found: max(one[-1] for one in found) < ALIKE
    clear = {"attention": all(map(falls, alone)) and alike(alone) if alone else None,
             "attention_residual": alike(residual) if residual else None}  # fmt: skip
    cases, said = {}, []
    for row in results.rows:
        curve = _numbers(mean_curve(results, row.id)) if curves(results, row.id) else ""
        if row.id in clear:
            cases[row.name] = Case.ruled(clear[row.id], curve)
        elif row.id in ("attention_feed_forward", "both") and curve:
            said.append(f"{row.name}: {curve}")
    return decide(cases, "distance from the mean vector by depth", *said)


def repairs(results: Results) -> Verdict:
    """Perplexity and next-token accuracy are better with the feed-forward network than with more heads, at every depth.

    The text also gives the distances with random weights and after training.
    """
    cases = {}
    for depth in DEPTHS:
        pair = f"with_{depth}", f"without_{depth}"
        name = f"{depth} layer{'s' * (depth > 1)}"
        cases[f"perplexity, {name}"] = compare(results, *pair, "evaluate.perplexity")
        cases[f"accuracy, {name}"] = compare(results, *pair, "measure.accuracy", higher=True)
    found = conclude(cases)
    alone, repaired = (mean_curve(results, row) for row in ("attention", "attention_feed_forward"))
    said = []
    if alone and repaired:
        nearer = sum(ours > theirs for ours, theirs in zip(repaired[1:], alone[1:], strict=True))
        said.append(
            "with random weights, the vectors are further apart with the network than without it at "
            f"{nearer} of {len(alone) - 1} depths"
        )
    for row in (f"{side}_{DEPTHS[-1]}" for side in ("with", "without")):
        if curve := mean_curve(results, row):
            said.append(f"{row}: distance by layer, trained, {_numbers(curve)}")
    return found.beside(*said)


VERDICTS = {"stacked-attention-only-averages": averages, "feed-forward-repairs": repairs}
