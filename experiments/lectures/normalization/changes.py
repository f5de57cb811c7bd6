"""The verdicts of `lectures/normalization` on the growth of a small change of early weights with depth."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

from .amplification import ACTIVATIONS
from .verdicts import sooner

#: Relative changes count as amplified above the first multiple, and the range of activations as huge above the second.
AMPLIFIED, HUGE = 2.0, 10.0

Case = tuple[str, float]


def cases_of(results: Results, row: str, name: str) -> dict[float, list[float | None]]:
    """Maps each gain to the values of all seeds."""
    gains = results.study.scale(results.scale).settings.get("gains", ())
    lists = results.values(row, f"measure.{name}")
    return {gain: [one[place] for one in lists] for place, gain in enumerate(gains)} if lists else {}


def above(values: list[float | None], bound: float) -> bool:
    """Whether the values of all seeds are above the bound. A value that overflowed counts as above."""
    return bool(values) and all(value is None or value > bound for value in values)


def _middle(values: list[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{statistics.median(there):.2g}" if there else "lost"


def amplified_cases(results: Results) -> tuple[list[Case], list[Case], list[str]]:
    """Returns the (activation, gain) cases whose changes are amplified, those with a huge range, and the texts."""
    amplified, huge, said = [], [], []
    for activation in ACTIVATIONS:
        row = f"changes_{activation}"
        growth = cases_of(results, row, "growth")
        for gain, values in cases_of(results, row, "last_amplified").items():
            amplified += [(activation, gain)] if above(values, AMPLIFIED) else []
            huge += [(activation, gain)] if above(growth[gain], HUGE) else []
            said.append(f"{activation} at gain {gain:g}: change x {_middle(values)}, range x "
                        f"{_middle(growth[gain])}")  # fmt: skip
    return amplified, huge, said


def _names(cases: list[Case]) -> str:
    return ", ".join(f"{activation} at gain {gain:g}" for activation, gain in cases) or "none"


def changes(results: Results) -> Verdict:
    """In some case a relative change is amplified and the range is huge.

    If both occur but not in the same case, or if only one occurs, the claim holds in part.
    """
    amplified, huge, said = amplified_cases(results)
    if not said:
        return Verdict(UNTESTED, "no activation is measured")
    both = [case for case in amplified if case in huge]
    because = "; ".join([f"amplified: {_names(amplified)}", f"huge range: {_names(huge)}", *said])
    if both:
        return Verdict(HELD, because)
    if amplified and huge:
        return Verdict(CONDITION, f"held in two parts, but not for the same activation and gain; {because}")
    if amplified or huge:
        return Verdict(CONDITION, f"held in one part; {because}")
    return Verdict(FAILED, because)


def stops(results: Results) -> Verdict:
    """With layer norm no change is amplified and no range is huge, and the target loss is reached sooner."""
    amplified, huge, _ = amplified_cases(results)
    cured, left, new, normed = [], [], [], []
    for before, name, bound in ((amplified, "last_amplified", AMPLIFIED), (huge, "growth", HUGE)):
        what = "change" if name == "last_amplified" else "range"
        for activation in ACTIVATIONS:
            for gain, values in cases_of(results, f"changes_{activation}_norm", name).items():
                case, grows = (activation, gain), above(values, bound)
                if grows or case in before:
                    (new if case not in before else left if grows else cured).append(case)
                    normed.append(f"{activation} at gain {gain:g} with layer norm: {what} x {_middle(values)}")
    speed = sooner(results, "layer_norm", "none")
    because = "; ".join([*normed, speed.text])
    if not cured and not left:
        return Verdict(UNTESTED, f"no amplified case is measured with layer norm; {because}")
    if not cured:
        return Verdict(FAILED, because)
    if not left and not new and speed.clear:
        return Verdict(HELD, because)
    parts = [f"stops for {_names(cured)}"]
    parts += [f"not for {_names(left)}"] * bool(left) + [f"begins for {_names(new)}"] * bool(new)
    parts += {
        None: ["steps not tested"],
        False: ["target loss not reached sooner"],
        True: ["target loss reached sooner"],
    }[speed.clear]
    return Verdict(CONDITION, f"held in part, growth {', '.join(parts)}; {because}")


VERDICTS = {"small-changes-amplified": changes, "layernorm-stops-amplification": stops}
