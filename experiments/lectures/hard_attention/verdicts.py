"""The verdicts and the figure of `lectures/hard_attention`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.comparisons import REVERSED, UNMEASURED
from attention_research.studies.figures import Figure, canvas, caption, legend, save, styles_of
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, compare, decide, together

from ..laws.exact import exact

#: Claim -> its law in a few words.
LAWS = {
    "hard-zero-one": "one-hot against shares",
    "hard-argmax-gradient-zero": "the gradient through a choice",
    "soft-gradient-smooth": "the gradient through shares",
}
#: An estimate agrees with the gradient if no score differs by more standard errors than this. If it is unbiased, at
#: least one of 42 scores exceeds this in 0.3 % of cases.
OFF = 4.0
ACCURACY, VARIANCE = "measure.accuracy", "measure.of_squares"
HARD = ("argmax", "reinforce", "reinforce_baseline")


def smooth(results: Results) -> Verdict:
    """The law holds, and in each seed the cost of soft attention is lower in the last twentieth of updates than in the
    first."""
    found = exact("soft-gradient-smooth")(results)
    curves = results.values("soft", "measure.curve")
    costs = "by seed: " + ", ".join(f"{curve[0]:.2f} to {curve[-1]:.2f}" for curve in curves)
    falls = Case.ruled(all(curve[-1] < curve[0] for curve in curves), costs) if curves else Case(UNMEASURED)
    return decide({**found.cases, "the cost decreases in training": falls})


def reinforce(results: Results) -> Verdict:
    """The mean of the estimates equals the enumerated gradient within its standard errors, with and without
    baseline."""
    cases = {}
    for suffix, name in (("", "without a baseline"), ("_with_baseline", "with a baseline")):
        largest = results.values("estimate", f"measure.largest_z{suffix}")
        share, variance = (results.mean("estimate", f"measure.{one}{suffix}") for one in ("share", "variance"))
        if largest:
            numbers = (
                f"largest difference {max(largest):.2f} standard errors, {share:.3f} of the gradient; variance "
                f"{variance:.2g}"
            )
            cases[name] = Case.ruled(max(largest) <= OFF, numbers)
    return decide(cases)


def harder(results: Results) -> Verdict:
    """Every hard mode is clearly less accurate than soft attention, or it is not clearly more accurate, reaches the
    target cost later and has a larger gradient variance."""
    cases = {}
    for mode, accuracy in together(
        {mode: compare(results, "soft", mode, ACCURACY, higher=True) for mode in HARD}
    ).items():
        if accuracy.clear is None:
            cases[mode] = Case.compared(accuracy)
            continue
        steps = {row: results.values(row, "measure.steps") for row in ("soft", mode)}
        seeds = len(results.values(mode, ACCURACY))
        late = len(steps["soft"]) == seeds and (
            len(steps[mode]) < seeds or min(steps[mode]) > max(steps["soft"])  # None: never
        )
        variance = [results.mean(row, VARIANCE) for row in ("soft", mode)]
        numbers = (
            f"{accuracy.text}; updates to the target cost {_steps(steps['soft'])} against {_steps(steps[mode])}; "
            + (f"variance / mean squared {variance[0]:.2g} against {variance[1]:.2g}"
               if None not in variance else "the gradient is zero")
        )  # fmt: skip
        noisier = None in variance or variance[1] > variance[0]
        as_accurate = accuracy.outcome != REVERSED
        cases[mode] = Case.ruled(accuracy.clear or (as_accurate and late and noisier), numbers)
    return decide(cases)


def _steps(values: tuple[float, ...]) -> str:
    return f"{statistics.fmean(values):.0f} ({len(values)} seeds)" if values else "never"


VERDICTS = {
    **{claim: exact(claim) for claim in LAWS},
    "soft-gradient-smooth": smooth,
    "hard-needs-reinforce": reinforce,
    "hard-is-hard-to-train": harder,
}


def draw(results: Results, folder: Path) -> Figure | None:
    """Draws the training cost by twentieths of the updates, with one line per mode: the mean over seeds."""
    curves = {row.name: results.mean_list(row.id, "measure.curve") for row in results.rows}
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(7.4, 4.4))
    for (name, curve), style in zip(curves.items(), styles_of(curves).values(), strict=True):
        places = [100 * (place + 1) / len(curve) for place in range(len(curve))]
        axis.plot(places, curve, label=name.removeprefix("trained, "), **style)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("share of the updates, %")
    axis.set_ylabel("training cost, nats")
    legend(figure)
    where = folder / "selection.png"
    save(figure, where, caption(results, "lines: mean over seeds"))
    said = "; ".join(f"{name.removeprefix('trained, ')} {curve[-1]:.2f}" for name, curve in curves.items())
    return Figure(where, "Training cost of soft and hard attention", f"Cost at the end: {said}.")
