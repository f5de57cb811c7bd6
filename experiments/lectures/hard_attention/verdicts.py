"""The verdicts and the figure of `lectures/hard_attention`."""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.studies.figures import Figure, canvas, save, styles
from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare, together

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
    if found.status != HELD or not curves:
        return found if found.status != HELD else Verdict(UNTESTED, f"{found.because}; not trained")
    said = "; ".join(f"{curve[0]:.2f} to {curve[-1]:.2f}" for curve in curves)
    good = all(curve[-1] < curve[0] for curve in curves)
    return Verdict(HELD if good else FAILED, f"{found.because}; cost in training, by seed: {said}")


def reinforce(results: Results) -> Verdict:
    """The mean of the estimates equals the enumerated gradient within its standard errors, with and without
    baseline."""
    plain, based = (results.values("estimate", f"measure.largest_z{suffix}") for suffix in ("", "_with_baseline"))
    if not plain:
        return Verdict(UNTESTED, "the estimate is not measured")
    shares = results.mean("estimate", "measure.share"), results.mean("estimate", "measure.share_with_baseline")
    variances = results.mean("estimate", "measure.variance"), results.mean("estimate", "measure.variance_with_baseline")
    because = (
        f"without and with a baseline: largest difference in standard errors {max(plain):.2f} and {max(based):.2f}; as "
        f"a share of the gradient {shares[0]:.3f} and {shares[1]:.3f}; variances {variances[0]:.2g} and "
        f"{variances[1]:.2g}"
    )
    return Verdict(HELD if max(*plain, *based) <= OFF else FAILED, because)


def harder(results: Results) -> Verdict:
    """Every hard mode is clearly less accurate than soft attention, or it is as accurate but reaches the target cost
    later and has a larger gradient variance."""
    cases, said = {}, []
    for mode, accuracy in together(
        {mode: compare(results, "soft", mode, ACCURACY, higher=True) for mode in HARD}
    ).items():
        if accuracy.clear is None:
            return Verdict(UNTESTED, accuracy.text)
        steps = {row: results.values(row, "measure.steps") for row in ("soft", mode)}
        seeds = len(results.values(mode, ACCURACY))
        late = len(steps["soft"]) == seeds and (
            len(steps[mode]) < seeds or min(steps[mode]) > max(steps["soft"])  # None: never
        )
        variance = [results.mean(row, VARIANCE) for row in ("soft", mode)]
        said.append(f"{accuracy.text}; updates to the target cost {_steps(steps['soft'])} against {_steps(steps[mode])}"
                    + (f"; variance / mean squared {variance[0]:.2g} against {variance[1]:.2g}"
                       if None not in variance else "; the gradient is zero"))  # fmt: skip
        noisier = None in variance or variance[1] > variance[0]
        cases[mode] = (accuracy.clear or late) and noisier
    because = "; ".join(said)
    if all(cases.values()):
        return Verdict(HELD, because)
    worse = [mode for mode, is_worse in cases.items() if is_worse]
    return Verdict(CONDITION, f"held for {', '.join(worse)}; {because}") if worse else Verdict(FAILED, because)


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
    figure, axis = pyplot.subplots(figsize=(6.4, 4))
    for (name, curve), style in zip(curves.items(), styles(), strict=False):
        places = [100 * (place + 1) / len(curve) for place in range(len(curve))]
        axis.plot(places, curve, label=name.removeprefix("trained, "), **style)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("share of the updates, %")
    axis.set_ylabel("training cost, nats")
    axis.legend(frameon=False)
    where = folder / "selection.png"
    save(pyplot, figure, where)
    said = "; ".join(f"{name.removeprefix('trained, ')} {curve[-1]:.2f}" for name, curve in curves.items())
    return Figure(where, "Training cost of soft and hard attention", f"Cost at the end: {said}.")
