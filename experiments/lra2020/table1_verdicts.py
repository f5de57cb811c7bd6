"""The verdict of `lra2020/table1`, and what its pictures and it read off the results."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

from .mechanisms import MECHANISMS, TASKS

ACCURACY, MAJORITY = "evaluate.accuracy", "evaluate.majority_accuracy"
#: Points of accuracy, mean over the tasks, that a mechanism may be below standard attention and still keep its score.
NEAR = 2.0


def told(results: Results) -> list[str]:
    """The tasks that tell mechanisms apart: some mechanism's mean accuracy is above that of always one class by more
    than `NEAR` points."""
    margin = lambda task, one: (
        (results.mean(f"{task}_{one}", ACCURACY) or 0.0) - (results.mean(f"{task}_{one}", MAJORITY) or 100.0)
    )
    return [task for task in TASKS if any(margin(task, mechanism) > NEAR for mechanism in MECHANISMS)]


def score(results: Results, mechanism: str, tasks: list[str]) -> float | None:
    """Mean accuracy over these tasks; None where one is missing."""
    means = [results.mean(f"{task}_{mechanism}", ACCURACY) for task in tasks]
    return None if not means or None in means else statistics.fmean(means)


def longest(results: Results, mechanism: str) -> tuple[int, float, float] | None:
    """(length, steps a second, megabytes) at the longest length measured, means over seeds; None without any."""
    lengths = results.values(f"cost_{mechanism}", "measure.lengths")
    if not lengths:
        return None
    last = lengths[0][-1]
    speed, size = (
        results.mean(f"cost_{mechanism}", f"measure.{what}_{last}") for what in ("steps_per_second", "megabytes")
    )
    return (last, speed, size) if speed and size else None


def avoid_the_cost(results: Results) -> Verdict:
    """More than half of the mechanisms that are not standard attention take less time and less memory at the longest
    length, and half of those that do are within `NEAR` points of its score over the tasks that tell."""
    base, tasks = longest(results, "standard"), told(results)
    others = [one for one in MECHANISMS if one != "standard" and longest(results, one)]
    if base is None or not others:
        return Verdict(UNTESTED, "standard attention or the others have no cost measured")
    full, said, cheap, near = score(results, "standard", tasks), [], [], []
    for one in others:
        _, speed, size = longest(results, one)
        mine = score(results, one, tasks)
        lost = None if full is None or mine is None else full - mine
        cheap += [one] * (speed > base[1] and size < base[2])
        near += [one] * (one in cheap and lost is not None and lost <= NEAR)
        said.append(
            f"{MECHANISMS[one]}: {speed / base[1]:.2f} times the steps, {size / base[2]:.2f} times the memory at "
            f"{base[0]:,} tokens, score {'not measured' if lost is None else f'{-lost:+.1f}'}"
        )
    because = "; ".join([f"standard attention's score over {', '.join(tasks) or 'no task'}: "
                         f"{'none' if full is None else f'{full:.1f}'}", *said])  # fmt: skip
    if not cheap:
        return Verdict(FAILED, because)
    names = ", ".join(MECHANISMS[one] for one in cheap)
    if 2 * len(cheap) <= len(others):
        return Verdict(CONDITION, f"cheaper are only {names}; {because}")
    if full is None or 2 * len(near) < len(cheap):
        return Verdict(CONDITION, f"{names} cost less, {len(near)} of them within {NEAR:g} points; {because}")
    return Verdict(HELD, f"{names} cost less, {len(near)} of {len(cheap)} within {NEAR:g} points; {because}")
