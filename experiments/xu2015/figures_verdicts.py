"""The verdicts of `xu2015/figures`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import FIGURE, UNTESTED, Verdict, against, conclude

ROWS = ("soft", "stochastic", "hard")


def _means(results: Results, row: str, names: tuple[str, ...]) -> dict[str, float] | None:
    """Maps each name to its mean over seeds, or returns None if the row is not measured."""
    found = {name: results.mean(row, f"measure.{name}") for name in names}
    there = {name: value for name, value in found.items() if value is not None}
    return there if len(there) == len(names) else None


def strips(results: Results) -> Verdict:
    """The images with masks of soft and of hard attention are drawn. They decide nothing."""
    there = [row for row in ROWS if results.values(row, "measure.strips")]
    if not {"hard"} <= set(there) or len(there) < 2:
        return Verdict(UNTESTED, f"strips of {', '.join(there) or 'none'}")
    return Verdict(FIGURE, f"figures/strips.png: a held-out image with the mask of each word, {', '.join(there)}")


def right_place(results: Results) -> Verdict:
    """The largest weight is in the cell of the word more often than with uniform weights, and than the middle is."""
    said, cases = [], {}
    for row in ROWS:
        for other, name in (("uniform", "uniform weights"), ("centre", "the middle")):
            cases[f"{row}, {name}"] = against(results, row, "measure.pointing", f"measure.{other}")
        found = _means(results, row, ("pointing", "mass", "uniform", "centre"))
        if found is None:
            continue
        said.append(f"{row}: largest weight in the word's cell {100 * found['pointing']:.0f} %, mass there "
                    f"{100 * found['mass']:.0f} %; uniform weights {100 * found['uniform']:.0f} %, the middle "
                    f"{100 * found['centre']:.0f} %")  # fmt: skip
    return conclude(cases).beside(*said)


def moving(results: Results) -> Verdict:
    """Attention moves farther between objects than within an object, in every model."""
    said, cases = [], {}
    for row in ROWS:
        cases[row] = against(results, row, "measure.moves_between", "measure.moves_within")
        found = _means(results, row, ("moves", "moves_within", "moves_between", "moves_shuffled"))
        if found is None:
            continue
        said.append(f"{row}: {found['moves_within']:.2f} cells within an object, {found['moves_between']:.2f} between, "
                    f"{found['moves_shuffled']:.2f} in another order of the words")  # fmt: skip
    return conclude(cases).beside(*said)


VERDICTS = {
    "caption-attention-figures": strips,
    "caption-attends-right-region": right_place,
    "caption-gaze-moves": moving,
}
