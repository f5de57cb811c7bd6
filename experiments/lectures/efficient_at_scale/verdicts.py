"""The verdicts of `lectures/efficient_at_scale`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Case, Verdict, between, decide, together

from .models import CAUSAL

NAMES = {
    "full": "full",
    "window": "sliding window",
    "linear": "linear",
    "performer": "Performer",
    "full_masked": "full, masked",
    "linformer": "Linformer, masked",
}
#: Efficient attention -> the full attention with which it is compared.
AGAINST = {"window": "full", "linear": "full", "performer": "full", "linformer": "full_masked"}


class Slope(NamedTuple):
    """The slope of a least-squares line, with the bounds of its 95 % confidence interval (Student's t)."""

    value: float
    low: float
    high: float


def slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """Fits a line. At least three points are needed, and not all at the same x.

    >>> tuple(round(part, 6) for part in slope([0, 1, 2, 3], [1, 3, 5, 7]))
    (2.0, 2.0, 2.0)
    """
    from scipy.stats import linregress, t

    line = linregress(x, y)
    reach = float(t.ppf(0.975, len(x) - 2)) * float(line.stderr)
    return Slope(float(line.slope), float(line.slope) - reach, float(line.slope) + reach)


def gaps(results: Results, kind: str) -> list[tuple[float, list[float]]]:
    """For each size: (parameters of the model with full attention, the loss gap of each seed).

    The list is empty if a measurement is missing.
    """
    ours, theirs = (results.values(row, "measure.losses") for row in (kind, AGAINST[kind]))
    sizes = results.values(AGAINST[kind], "measure.parameters")
    if not ours or not theirs:
        return []
    pairs = list(zip(ours, theirs, strict=False))
    return [(size, [cheap[n] - full[n] for cheap, full in pairs]) for n, size in enumerate(sizes[0])]


def falls_behind(results: Results) -> Verdict:
    """For each efficient attention the gap grows with the model size, also without the smallest model.

    The gap is regressed on log2 of the parameters, over all sizes and seeds, and over all but the smallest size. It
    grows if the whole 95 % interval of both slopes is above 0.
    """
    cases = {}
    for kind in AGAINST:
        sizes = gaps(results, kind)
        lines = [_line(sizes), _line(sizes[1:])]
        if None in lines:
            cases[NAMES[kind]] = Case(UNMEASURED)
            continue
        means = ", ".join(f"{statistics.fmean(values):+.3f}" for _, values in sizes)
        said = [f"{line.value:+.4f} ({line.low:+.4f} to {line.high:+.4f})" for line in lines if line]
        cases[NAMES[kind]] = Case.ruled(
            all(line.low > 0 for line in lines if line),
            f"gap {means} from the smallest model to the largest; {said[0]} per doubling of parameters, "
            f"{said[1]} without the smallest model",
        )
    return decide(cases)


def _line(sizes: Sequence[tuple[float, Sequence[float]]]) -> Slope | None:
    """The slope of the gap against log2 of the parameters, over all seeds; None for fewer than three points."""
    points = [(math.log2(size), gap) for size, values in sizes for gap in values]
    return slope(*zip(*points, strict=True)) if len(points) > 2 and len(sizes) > 1 else None


def unlocks(results: Results) -> Verdict:
    """An attention is clearly better with the longest context than with every shorter context, and clearly better than
    full attention with any context. The tests are corrected for all of these pairs."""
    contexts = results.settings.get("contexts", ())
    losses = {kind: list(zip(*results.values(kind, "measure.context_losses"), strict=True)) for kind in CAUSAL}
    losses = {kind: values for kind, values in losses.items() if values}
    if "full" not in losses or min(map(len, losses["full"])) < 2:
        return Verdict(UNTESTED, "full attention is not measured by context with at least two seeds")
    said = [f"{NAMES[kind]}: loss {', '.join(f'{statistics.fmean(values):.3f}' for values in by_context)} at contexts "
            f"of {', '.join(map(str, contexts))} tokens" for kind, by_context in losses.items()]  # fmt: skip
    pairs = {}
    for kind, values in losses.items():
        others = [(kind, place) for place in range(len(values) - 1)]
        others += [("full", place) for place in range(len(values)) if kind != "full"]
        for other, place in others:
            sides = losses[kind][-1], losses[other][place]
            pairs[kind, other, place] = between(kind, other, *sides, "loss", in_pairs=kind == other, higher=False)
    clear = {pair for pair, case in together(pairs).items() if case.clear}
    longer = [kind for kind in losses if all((kind, kind, place) in clear for place in range(len(contexts) - 1))]
    shorter = [kind for kind in losses if (kind, kind, 0) in clear]
    against_full = lambda kind: [pair for pair in pairs if pair[:2] == (kind, "full")]
    best = [kind for kind in longer if clear.issuperset(against_full(kind))]
    if best:
        return Verdict(HELD, [f"the longest context is best for {', '.join(NAMES[kind] for kind in best)}", *said])
    names = ", ".join(NAMES[kind] for kind in shorter) or "no attention"
    return Verdict(FAILED, [f"clearly better with the longest context than with the shortest: {names}", *said])


VERDICTS = {"cheaper-worse-at-scale": falls_behind, "longer-contexts-unlock": unlocks}
