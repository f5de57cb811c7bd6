"""The verdict of `lra2020/table1`, and functions that read the results for the verdict and the figures."""

from __future__ import annotations

import statistics

from attention_research.studies.comparisons import together, within
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide, margin_of

from .mechanisms import MECHANISMS, TASKS

ACCURACY, MAJORITY = "evaluate.accuracy", "evaluate.majority_accuracy"
#: A task says something if some mechanism is above the majority class by more than this many points.
NEAR = 2.0


def told(results: Results) -> list[str]:
    """Returns the informative tasks: some mechanism's mean accuracy is above the majority class by more than `NEAR`
    points."""
    margin = lambda task, one: (
        (results.mean(f"{task}_{one}", ACCURACY) or 0.0) - (results.mean(f"{task}_{one}", MAJORITY) or 100.0)
    )
    return [task for task in TASKS if any(margin(task, mechanism) > NEAR for mechanism in MECHANISMS)]


def scores(results: Results, mechanism: str, tasks: list[str]) -> list[float]:
    """Returns the mean accuracy over the given tasks for each seed, or an empty list if a number is missing."""
    found = [results.values(f"{task}_{mechanism}", ACCURACY) for task in tasks]
    return [statistics.fmean(seed) for seed in zip(*found, strict=True)] if len({*map(len, found)}) == 1 else []


def score(results: Results, mechanism: str, tasks: list[str]) -> float | None:
    """Returns the mean of `scores`, or None without them."""
    found = scores(results, mechanism, tasks)
    return statistics.fmean(found) if found else None


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
    and at least half of these are worse than its score over the informative tasks by less than the claim's margin."""
    base, tasks = longest(results, "standard"), told(results)
    others = [one for one in MECHANISMS if one != "standard" and longest(results, one)]
    if base is None or not others:
        return Verdict(UNTESTED, "the cost of standard attention or of the others is not measured")
    margin = margin_of(results, "attention-without-all-pairs")
    full, said, cheap, compared = scores(results, "standard", tasks), [], [], {}
    for one in others:
        _, speed, size = longest(results, one)
        mine = scores(results, one, tasks)
        gain = f"{statistics.fmean(mine) - statistics.fmean(full):+.1f}" if mine and full else "not measured"
        if speed > base[1] and size < base[2]:
            cheap.append(one)
            compared[one] = within(one, "standard", mine, full, "accuracy", margin, in_pairs=True, higher=True)
        said.append(
            f"{MECHANISMS[one]}: {speed / base[1]:.2f} times the steps, {size / base[2]:.2f} times the memory at "
            f"{base[0]:,} tokens, score {gain}"
        )
    names = ", ".join(MECHANISMS[one] for one in cheap) or "none"
    base_score = f"score of standard attention over {', '.join(tasks) or 'no task'}: "
    near = [one for one, case in together(compared).items() if case.clear]
    kept = ", ".join(MECHANISMS[one] for one in near) or "none"
    cases = {
        "most mechanisms cost less": Case.ruled(
            2 * len(cheap) > len(others), f"{len(cheap)} of {len(others)} need less time and memory: {names}"
        ),
        f"at least half of these lose less than {margin} points": Case.ruled(
            None if tasks and not full else bool(near) and 2 * len(near) >= len(cheap),
            f"{len(near)} of {len(cheap)}: {kept}",
        ),
    }
    return decide(cases, base_score + (f"{statistics.fmean(full):.1f}" if full else "none"), *said)
