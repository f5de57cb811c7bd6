"""The verdicts of `lectures/identity`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

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
    return ", ".join(f"{value:.2g}" if math.isfinite(value) else "never" for value in values)


def settings(results: Results) -> dict[str, Any]:
    """The sizes of the scale."""
    return dict(results.study.scale(results.scale).settings)


def hard(results: Results) -> Verdict:
    """From some depth on, no seed of a plain stack is within the tolerance. The depth is given by activation."""
    depths, tolerance = (settings(results).get(name, ()) for name in ("depths", "tolerance"))
    words, always, cases = [], [], []
    measured = 0
    for activation in ACTIVATIONS:
        errors = by_depth(results, f"plain_{activation}", "identity_errors")
        if not errors:
            continue
        measured += 1
        words.append(f"{activation}: {said(middle(errors))}")
        missed = [min(at) > tolerance for at in errors]
        if not missed[-1]:
            continue
        first = next(depth for place, depth in enumerate(depths) if all(missed[place:]))
        cases.append(f"{activation} from {first} layers on")
        always += [activation] if all(missed) else []
    if not measured:
        return Verdict(UNTESTED, "plain stacks are not measured")
    because = f"error by depth ({', '.join(map(str, depths))} layers), plain; {'; '.join(words)}"
    if not cases:
        return Verdict(FAILED, because)
    if len(always) == measured:
        return Verdict(HELD, because)
    return Verdict(CONDITION, f"held for {', '.join(cases)}; {because}")


def easy(results: Results) -> Verdict:
    """Residual stacks are within the tolerance in every seed, and if plain stacks are too, not later than those.

    The near-identity counts as learned only if the error is also below that of the identity function.
    """
    sizes = settings(results)
    depths, tolerance = (sizes.get(name, ()) for name in ("depths", "tolerance"))
    words, good, cases = [], [], 0
    for activation in ACTIVATIONS:
        plain, residual = (f"{arm}_{activation}" for arm in ARMS)
        for target, name in TARGETS.items():
            errors, rivals = (by_depth(results, row, f"{target}_errors") for row in (residual, plain))
            if not errors or not rivals:
                continue
            steps, theirs = (middle(by_depth(results, row, f"{target}_steps")) for row in (residual, plain))
            bound = tolerance
            if target == "near":
                bound = min(tolerance, *results.values(residual, "measure.near_floor"))
            for place, depth in enumerate(depths):
                cases += 1
                lower = max(errors[place]) <= bound and max(errors[place]) < min(rivals[place])
                if lower and steps[place] <= theirs[place]:
                    good.append((activation, name, depth))
            words.append(
                f"{activation}, {name}: error {said(middle(errors))} against {said(middle(rivals))} plain, updates "
                f"{said(steps)} against {said(theirs)}"
            )
    if not cases:
        return Verdict(UNTESTED, "no pair of stacks is measured")
    because = f"by depth ({', '.join(map(str, depths))} layers); {'; '.join(words)}"
    if not good:
        return Verdict(FAILED, because)
    if len(good) == cases:
        return Verdict(HELD, because)
    pairs = dict.fromkeys((activation, name) for activation, name, _ in good)
    where = (
        f"{activation}, {name} at {', '.join(str(depth) for *pair, depth in good if tuple(pair) == (activation, name))}"
        for activation, name in pairs
    )
    return Verdict(CONDITION, f"held for {' layers, '.join(where)} layers; {because}")


VERDICTS = {"identity-hard-to-learn": hard, "residual-makes-identity-easy": easy}
