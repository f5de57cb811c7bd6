"""The verdicts of `xu2015/figures`."""

from __future__ import annotations

from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict

ROWS = ("soft", "soft_free", "hard")


def _means(results: Results, row: str, names: tuple[str, ...]) -> dict[str, float] | None:
    """Name -> mean over seeds; None where the row is not measured."""
    found = {name: results.mean(row, f"measure.{name}") for name in names}
    there = {name: value for name, value in found.items() if value is not None}
    return there if len(there) == len(names) else None


def strips(results: Results) -> Verdict:
    """Strips of soft and of hard attention are there."""
    there = [row for row in ROWS if results.values(row, "measure.strips")]
    if not {"hard"} <= set(there) or len(there) < 2:
        return Verdict(UNTESTED, f"strips of {', '.join(there) or 'none'}")
    return Verdict(HELD, f"figures/strips.png: a held-out picture with the mask of each word, {', '.join(there)}")


def right_place(results: Results) -> Verdict:
    """The largest weight in the word's cell more often than even weights, and than always the middle, in every seed."""
    said, held, failed = [], [], []
    for row in ROWS:
        found = _means(results, row, ("pointing", "mass", "uniform", "centre"))
        if found is None:
            continue
        worst = min(results.values(row, "measure.pointing"))
        (held if worst > max(found["uniform"], found["centre"]) else failed).append(row)
        said.append(f"{row}: largest weight in the word's cell {100 * found['pointing']:.0f} %, mass there "
                    f"{100 * found['mass']:.0f} %; even weights {100 * found['uniform']:.0f} %, the middle "
                    f"{100 * found['centre']:.0f} %")  # fmt: skip
    if not said:
        return Verdict(UNTESTED, "no captioner is measured")
    if not failed:
        return Verdict(HELD, "; ".join(said))
    return Verdict(CONDITION if held else FAILED, "; ".join([f"held for {', '.join(held) or 'none'}", *said]))


def moving(results: Results) -> Verdict:
    """Between objects attention moves farther than within one, in every captioner and seed."""
    said, held, failed = [], [], []
    for row in ROWS:
        found = _means(results, row, ("moves", "moves_within", "moves_between", "moves_shuffled"))
        if found is None:
            continue
        within, between = (results.values(row, f"measure.moves_{name}") for name in ("within", "between"))
        farther = all(one < other for one, other in zip(within, between, strict=True))
        (held if farther else failed).append(row)
        said.append(f"{row}: {found['moves_within']:.2f} cells within an object, {found['moves_between']:.2f} between, "
                    f"{found['moves_shuffled']:.2f} in another order of the words")  # fmt: skip
    if not said:
        return Verdict(UNTESTED, "no captioner is measured")
    if not failed:
        return Verdict(HELD, "; ".join(said))
    return Verdict(CONDITION if held else FAILED, "; ".join([f"held for {', '.join(held) or 'none'}", *said]))


VERDICTS = {
    "caption-attention-figures": strips,
    "caption-attends-right-region": right_place,
    "caption-gaze-moves": moving,
}
