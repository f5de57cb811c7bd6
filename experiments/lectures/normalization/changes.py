"""The verdicts of `lectures/normalization` on the growth of a small change of early weights with depth."""

from __future__ import annotations

import statistics

from attention_research.studies.columns import brief
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Case, Verdict, decide

from .amplification import ACTIVATIONS
from .verdicts import sooner

#: Relative changes count as amplified above the first multiple, and the range of activations as huge above the second.
AMPLIFIED, HUGE = 2.0, 10.0

#: An activation and a gain.
Place = tuple[str, float]


def by_gain(results: Results, row: str, name: str) -> dict[float, list[float | None]]:
    """Maps each gain to the values of all seeds."""
    gains = results.settings.get("gains", ())
    lists = results.values(row, f"measure.{name}")
    return {gain: [one[place] for one in lists] for place, gain in enumerate(gains)} if lists else {}


def above(values: list[float | None], bound: float) -> bool:
    """Whether the values of all seeds are above the bound. A value that overflowed counts as above."""
    return bool(values) and all(value is None or value > bound for value in values)


def _middle(values: list[float | None]) -> str:
    there = [value for value in values if value is not None]
    return brief(statistics.median(there)) if there else "lost"


def amplified_activations(results: Results) -> tuple[list[Place], list[Place], list[str]]:
    """Returns the (activation, gain) cases whose changes are amplified, those with a huge range, and the texts."""
    amplified, huge, said = [], [], []
    for activation in ACTIVATIONS:
        row = f"changes_{activation}"
        growth = by_gain(results, row, "growth")
        for gain, values in by_gain(results, row, "last_amplified").items():
            amplified += [(activation, gain)] if above(values, AMPLIFIED) else []
            huge += [(activation, gain)] if above(growth[gain], HUGE) else []
            said.append(f"{activation} at gain {gain:g}: change x {_middle(values)}, range x "
                        f"{_middle(growth[gain])}")  # fmt: skip
    return amplified, huge, said


def _names(cases: list[Place]) -> str:
    return ", ".join(f"{activation} at gain {gain:g}" for activation, gain in cases) or "none"


def changes(results: Results) -> Verdict:
    """For at least one activation and gain, a relative change is amplified and the range is huge."""
    amplified, huge, said = amplified_activations(results)
    if not said:
        return Verdict(UNTESTED, "no activation is measured")
    both = [one for one in amplified if one in huge]
    found = [f"amplified: {_names(amplified)}", f"huge range: {_names(huge)}", f"both: {_names(both)}"]
    return Verdict(HELD if both else FAILED, [*found, *said])


def stops(results: Results) -> Verdict:
    """With layer norm no change is amplified and no range is huge, and the target loss is reached sooner.

    The cases are those that are amplified or huge with or without layer norm.
    """
    amplified, huge, _ = amplified_activations(results)
    rows = [f"changes_{activation}{norm}" for activation in ACTIVATIONS for norm in ("", "_norm")]
    cases = {row: Case.ruled(None) for row in rows if not results.values(row, "measure.growth")}
    if len(cases) == len(rows):
        return Verdict(UNTESTED, "no activation is measured")
    for before, name, bound in ((amplified, "last_amplified", AMPLIFIED), (huge, "growth", HUGE)):
        what = "change" if name == "last_amplified" else "range"
        for activation in ACTIVATIONS:
            for gain, values in by_gain(results, f"changes_{activation}_norm", name).items():
                grows, grew = above(values, bound), (activation, gain) in before
                if grows or grew:
                    begins = "" if grew else ", not without layer norm"
                    numbers = f"x {_middle(values)} with layer norm{begins}"
                    cases[f"{what}, {activation} at gain {gain:g}"] = Case.ruled(not grows, numbers)
    if not cases:
        return Verdict(UNTESTED, "no amplified case is measured with layer norm")
    return decide({**cases, "steps": Case.compared(sooner(results, "layer_norm", "none"))})


VERDICTS = {"small-changes-amplified": changes, "layernorm-stops-amplification": stops}
