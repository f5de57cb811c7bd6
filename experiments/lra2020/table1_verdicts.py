"""The verdict of `lra2020/table1`, and functions that read the results for the verdict and the figures."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

from .mechanisms import MECHANISMS, TASKS

ACCURACY, MAJORITY = "evaluate.accuracy", "evaluate.majority_accuracy"
#: A mechanism keeps the score if its mean accuracy over tasks is at most this many points below standard attention.
NEAR = 2.0


def told(results: Results) -> list[str]:
    """Returns the informative tasks: some mechanism's mean accuracy is above the majority class by more than `NEAR`
    points."""
    margin = lambda task, one: (
        (results.mean(f"{task}_{one}", ACCURACY) or 0.0) - (results.mean(f"{task}_{one}", MAJORITY) or 100.0)
    )
    return [task for task in TASKS if any(margin(task, mechanism) > NEAR for mechanism in MECHANISMS)]


def score(results: Results, mechanism: str, tasks: list[str]) -> float | None:
    """Returns the mean accuracy over the given tasks, or None if one is missing."""
    means = [results.mean(f"{task}_{mechanism}", ACCURACY) for task in tasks]
    return None if not means or None in means else statistics.fmean(means)


def longest(results: Results, mechanism: str) -> tuple[int, float, float] | None:
    """Returns (length, steps per second, megabytes) at the longest measured length, averaged over seeds, or None."""
    lengths = results.values(f"cost_{mechanism}", "measure.lengths")
    if not lengths:
        return None
    last = lengths[0][-1]
    speed, size = (
        results.mean(f"cost_{mechanism}", f"measure.{what}_{last}") for what in ("steps_per_second", "megabytes")
    )
    return (last, speed, size) if speed and size else None


def avoid_the_cost(results: Results) -> Verdict:
    """More than half of the mechanisms other than standard attention need less time and memory at the longest length,
    and half of these are within `NEAR` points of its score over the informative tasks."""
    base, tasks = longest(results, "standard"), told(results)
    others = [one for one in MECHANISMS if one != "standard" and longest(results, one)]
    if base is None or not others:
        return Verdict(UNTESTED, "the cost of standard attention or of the others is not measured")
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
    names = ", ".join(MECHANISMS[one] for one in cheap) or "none"
    base_score = f"score of standard attention over {', '.join(tasks) or 'no task'}: "
    cases = {
        "most mechanisms cost less": Case.ruled(
            2 * len(cheap) > len(others), f"{len(cheap)} of {len(others)} need less time and memory: {names}"
        ),
        f"half of these are within {NEAR:g} points": Case.ruled(
            bool(cheap) and full is not None and 2 * len(near) >= len(cheap), f"{len(near)} of {len(cheap)}"
        ),
    }
    return decide(cases, base_score + ("none" if full is None else f"{full:.1f}"), *said)
