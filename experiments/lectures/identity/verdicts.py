"""The verdicts of `lectures/identity`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from attention_research.studies.columns import brief
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, decide

from .fitting import ACTIVATIONS

#: Arm -> whether it has shortcuts.
ARMS = {"plain": False, "residual": True}
TARGETS = {"identity": "identity", "near": "near-identity"}


def by_depth(results: Results, row: str, name: str) -> list[list[float]]:
    """The values of all seeds at each depth. None (a loss that is not finite, or a tolerance never reached) counts as
    infinite."""
    lists = results.values(row, f"measure.{name}")
    return [[math.inf if value is None else value for value in at] for at in zip(*lists, strict=True)]


def middle(values: Sequence[Sequence[float]]) -> list[float]:
    """The median over seeds at each depth."""
    return [statistics.median(at) for at in values]


def said(values: Sequence[float]) -> str:
    """Formats numbers; an infinite one becomes "never"."""
    return ", ".join(brief(value) if math.isfinite(value) else "never" for value in values)


def settings(results: Results) -> dict[str, Any]:
    """The sizes of the scale."""
    return dict(results.settings)


def hard(results: Results) -> Verdict:
    """From some depth on, no seed of a plain stack is within the tolerance, and the error of every seed is larger at
    the largest depth than at the smallest. The cases are the activations.
    """
    depths, tolerance = (settings(results).get(name, ()) for name in ("depths", "tolerance"))
    cases = {}
    for activation in ACTIVATIONS:
        errors = by_depth(results, f"plain_{activation}", "identity_errors")
        cases[activation] = Case.ruled(None)
        if errors:
            missed = [min(at) > tolerance for at in errors]
            first = next((depth for place, depth in enumerate(depths) if all(missed[place:])), None)
            since = f", not learned from {first} layers on" if first else ", learned at the largest depth"
            grows = all(late > early for early, late in zip(errors[0], errors[-1], strict=True))
            cases[activation] = Case.ruled(first is not None and grows, f"error {said(middle(errors))}{since}")
    return decide(cases, f"plain stacks of {', '.join(map(str, depths))} layers")


def easy(results: Results) -> Verdict:
    """Residual stacks are within the tolerance in every seed, and if plain stacks are too, not later than those.

    The near-identity counts as learned only if the error is also below that of the identity function. The cases are the
    activations, targets and depths.
    """
    sizes = settings(results)
    depths, tolerance = (sizes.get(name, ()) for name in ("depths", "tolerance"))
    cases = {}
    for activation in ACTIVATIONS:
        plain, residual = (f"{arm}_{activation}" for arm in ARMS)
        for target, name in TARGETS.items():
            errors, rivals = (by_depth(results, row, f"{target}_errors") for row in (residual, plain))
            if not errors or not rivals:
                cases[f"{activation}, {name}"] = Case.ruled(None)
                continue
            steps, theirs = (middle(by_depth(results, row, f"{target}_steps")) for row in (residual, plain))
            bound = tolerance
            if target == "near":
                bound = min(tolerance, *results.values(residual, "measure.near_floor"))
            ours, others = middle(errors), middle(rivals)
            for place, depth in enumerate(depths):
                lower = max(errors[place]) <= bound and max(errors[place]) < min(rivals[place])
                cases[f"{activation}, {name}, {depth} layers"] = Case.ruled(
                    lower and steps[place] <= theirs[place],
                    f"error {said([ours[place]])} against {said([others[place]])} plain, updates "
                    f"{said([steps[place]])} against {said([theirs[place]])}",
                )
    return decide(cases)


VERDICTS = {"identity-hard-to-learn": hard, "residual-makes-identity-easy": easy}
