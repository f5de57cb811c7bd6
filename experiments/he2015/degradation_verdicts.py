"""The verdicts of `he2015/degradation`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, compare, conclude, decide

SHALLOW, DEEP = 20, 56
TRAINING, TEST = "measure.train_error", "measure.test_error"
#: The tolerance for sums in float32.
ROUNDING = 1e-5


def degrades(results: Results) -> Verdict:
    """The training error of the deepest plain network is above that of the shallowest one.

    The text also gives the residual networks.
    """
    plain = compare(results, f"plain_{SHALLOW}", f"plain_{DEEP}", TRAINING)
    residual = compare(results, f"residual_{SHALLOW}", f"residual_{DEEP}", TRAINING)
    deep = compare(results, f"residual_{DEEP}", f"plain_{DEEP}", TRAINING)
    said = [f"residual: {residual.said}", f"{DEEP} layers: {deep.said}", *_by_depth(results)]
    return conclude({"plain": plain}).beside(*said)


def _by_depth(results: Results) -> list[str]:
    """Describes the mean training and test error by depth, in %."""
    said = []
    for kind in ("plain", "residual"):
        for key, name in ((TRAINING, "training"), (TEST, "test")):
            means = {row.id.split("_")[1]: results.mean(row.id, key) for row in results.rows if f"{kind}_" in row.id}
            there = [f"{depth} layers {100 * value:.1f} %" for depth, value in means.items() if value is not None]
            said += [f"{kind}, {name} error: {', '.join(there)}"] if there else []
    return said


def curves(results: Results) -> Verdict:
    """Among plain networks, the deep one has the higher training error and the higher test error."""
    cases = {name: compare(results, f"plain_{SHALLOW}", f"plain_{DEEP}", key)
             for name, key in (("training error", TRAINING), ("test error", TEST))}  # fmt: skip
    return conclude(cases)


def identity(results: Results) -> Verdict:
    """With zero filters a block and its Jacobian are the identity. With random filters the Jacobian of a block is that
    of its branch plus the identity."""
    names = ("zero_difference", "zero_jacobian", "jacobian_difference")
    found = {kind: {name: max(results.values(f"exact_{kind}", f"measure.{name}"), default=None) for name in names}
             for kind in ("residual", "plain")}  # fmt: skip
    if any(value is None for value in found["residual"].values()):
        return Verdict(UNTESTED, "the block is not measured")
    largest, plain = found["residual"], found["plain"]
    right = {
        "zero filters: the output is the input": ("zero_difference", largest["zero_difference"] == 0),
        "zero filters: the Jacobian is the identity": ("zero_jacobian", largest["zero_jacobian"] == 0),
        "random filters: branch plus identity": ("jacobian_difference", largest["jacobian_difference"] < ROUNDING),
    }
    cases = {
        title: Case.ruled(good, f"largest difference {largest[name]:.2g}"
                          + ("" if plain[name] is None else f", without the shortcut {plain[name]:.2g}"))
        for title, (name, good) in right.items()
    }  # fmt: skip
    return decide(cases)


VERDICTS = {
    "degradation-problem": degrades,
    "degradation-figure": curves,
    "residual-learns-difference": identity,
}
