"""The verdicts and figures of `xu2015/bottleneck`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies.figures import Figure, canvas, caption, legend, row_styles, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, between, compare, conclude

NAMED, WORDS = "measure.named", "measure.words"
VECTORS = ("once", "every_word")


def by_objects(results: Results, row: str) -> dict[int, float]:
    """Maps each number of objects to the share of correctly named objects, averaged over seeds."""
    found = results.values(row, "measure.named_by_objects")
    return {int(n): float(np.mean([one[n] for one in found])) for n in sorted(found[0], key=int)} if found else {}


def bottleneck(results: Results) -> Verdict:
    """Attention names clearly more objects than one vector, and the gap is clearly larger for the largest number of
    objects than for the smallest."""
    cases = {row: compare(results, "attention", row, NAMED, higher=True) for row in VECTORS}
    if any(case.p is None for case in cases.values()):
        return conclude(cases)
    said = []
    for row in VECTORS:
        ours, theirs = (results.values(one, "measure.named_by_objects") for one in ("attention", row))
        few, many = min(ours[0], key=int), max(ours[0], key=int)
        gaps = {n: [a[n] - b[n] for a, b in zip(ours, theirs, strict=False)] for n in (many, few)}
        names = (f"{n} objects" for n in gaps)
        case = between(*names, *gaps.values(), f"attention above {row}", in_pairs=True)
        cases[f"{row}, growth with the objects"] = case
    said += [f"{row}: {', '.join(f'{n} {100 * share:.0f} %' for n, share in by_objects(results, row).items())}"
             for row in ("attention", *VECTORS)]  # fmt: skip
    return conclude(cases).beside(*said)


def long_descriptions(results: Results) -> Verdict:
    """Attention has more correct words in long descriptions than one vector. The text also gives them by position."""
    case = compare(results, "attention_long", "every_word_long", WORDS, higher=True)
    said = []
    for row in ("attention_long", "every_word_long"):
        curve, index = by_index(results, row)
        each = (f"{place}: {100 * share:.0f} %" for place, share in zip(index, curve, strict=True))
        said.append(f"{row}, correct words up to word {', '.join(each)}")
    return conclude({"right words": case}).beside(*said)


def by_index(results: Results, row: str) -> tuple[list[float], list[int]]:
    """Returns (share of correct words, averaged over seeds; the last word of each part)."""
    found = results.values(row, "measure.words_by_index")
    if not found:
        return [], []
    return [float(np.mean(tenth)) for tenth in zip(*found, strict=True)], results.values(row, "measure.index")[0]


def draw_objects(results: Results, folder: Path) -> Figure | None:
    """Draws the share of correctly named objects by their number."""
    curves = {row.id: by_objects(results, row.id) for row in results.rows if "_long" not in row.id}
    curves = {name: curve for name, curve in curves.items() if curve}
    return _lines(results, curves, folder / "named_by_objects.png", "objects in the image", "correctly named, %",
                  "Objects named by their number")  # fmt: skip


def draw_index(results: Results, folder: Path) -> Figure | None:
    """Draws the share of correct words by position in a long description."""
    curves = {}
    for row in results.rows:
        curve, index = by_index(results, row.id)
        if curve and "_long" in row.id:
            curves[row.id] = dict(zip(index, curve, strict=True))
    return _lines(
        results,
        curves,
        folder / "words_by_index.png",
        "position in the description, words",
        "correct words, %",
        "Correct words by position",
    )


def _lines(
    results: Results, curves: dict[str, dict[int, float]], where: Path, x: str, y: str, title: str
) -> Figure | None:
    if not curves:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(7.4, 4.4))
    names, looks = {row.id: row.name for row in results.rows}, row_styles(results)
    for row, curve in curves.items():
        axis.plot(list(curve), [100 * share for share in curve.values()], label=names[row], **looks[row])
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.set_ylim(0, 103)
    legend(figure)
    save(figure, where, caption(results, "lines: mean over seeds", rows=list(curves)))
    said = "; ".join(f"{names[row]} {', '.join(f'{n}: {100 * s:.0f} %' for n, s in curve.items())}"
                     for row, curve in curves.items())  # fmt: skip
    return Figure(where, title, f"{said}.")


VERDICTS = {"caption-bottleneck": bottleneck, "caption-hundreds-of-words": long_descriptions}
