"""The verdicts of `he2015/degradation`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare

SHALLOW, DEEP = 20, 56
TRAINING, TEST = "measure.train_error", "measure.test_error"
#: Differences that float32 sums may leave.
ROUNDING = 1e-5


def degrades(results: Results) -> Verdict:
    """The deepest plain network's training error is clearly above the shallowest one's."""
    plain = compare(results, f"plain_{SHALLOW}", f"plain_{DEEP}", TRAINING)
    if plain.clear is None:
        return Verdict(UNTESTED, plain.text)
    said = [f"plain: {plain.text}"]
    residual = compare(results, f"residual_{SHALLOW}", f"residual_{DEEP}", TRAINING)
    against = compare(results, f"residual_{DEEP}", f"plain_{DEEP}", TRAINING)
    said += [f"residual: {residual.text}", f"{DEEP} layers: {against.text}", *_by_depth(results)]
    return Verdict(HELD if plain.clear else FAILED, "; ".join(said))


def _by_depth(results: Results) -> list[str]:
    """Mean training and test error by depth, in %."""
    said = []
    for kind in ("plain", "residual"):
        for key, name in ((TRAINING, "training"), (TEST, "test")):
            means = {row.id.split("_")[1]: results.mean(row.id, key) for row in results.rows if f"{kind}_" in row.id}
            there = [f"{depth} layers {100 * value:.1f} %" for depth, value in means.items() if value is not None]
            said += [f"{kind}, {name} error: {', '.join(there)}"] if there else []
    return said


def curves(results: Results) -> Verdict:
    """Deep above shallow, in both errors, among plain networks."""
    cases = {name: compare(results, f"plain_{SHALLOW}", f"plain_{DEEP}", key)
             for name, key in (("training error", TRAINING), ("test error", TEST))}  # fmt: skip
    texts = "; ".join(f"{name}: {case.text}" for name, case in cases.items())
    if any(case.clear is None for case in cases.values()):
        return Verdict(UNTESTED, texts)
    above = [name for name, case in cases.items() if case.clear]
    if len(above) == len(cases):
        return Verdict(HELD, texts)
    return Verdict(CONDITION, f"held for {above[0]}; {texts}") if above else Verdict(FAILED, texts)


def identity(results: Results) -> Verdict:
    """Zero filters: output and Jacobian are input and identity; drawn ones: J = J of the branch + identity."""
    names = ("zero_difference", "zero_jacobian", "jacobian_difference")
    found = {kind: {name: max(results.values(f"exact_{kind}", f"measure.{name}"), default=None) for name in names}
             for kind in ("residual", "plain")}  # fmt: skip
    if any(value is None for value in found["residual"].values()):
        return Verdict(UNTESTED, "the block is not measured")
    texts = [f"{kind}: " + ", ".join(f"{name.replace('_', ' ')} {value:.2g}" for name, value in numbers.items())
             for kind, numbers in found.items() if None not in numbers.values()]  # fmt: skip
    exact = found["residual"]["zero_difference"] == 0 == found["residual"]["zero_jacobian"]
    good = exact and found["residual"]["jacobian_difference"] < ROUNDING
    return Verdict(HELD if good else FAILED, "; ".join(texts))


VERDICTS = {
    "degradation-problem": degrades,
    "degradation-figure": curves,
    "residual-learns-difference": identity,
}
