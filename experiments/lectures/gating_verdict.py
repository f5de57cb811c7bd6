"""The verdict and the picture of `lectures/gating`."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, Verdict, compare

from .exact import exact

CLAIM, ERROR = "gating-interactions", "measure.error"
#: An error that says that the product was learned.
LEARNED = 0.5


def gates(results: Results) -> Verdict:
    """The law; and attention's error on products is clearly below ungated mixing's, and below a half."""
    found = exact(CLAIM)(results)
    attention = compare(results, "attention", "ungated", ERROR)
    gated = compare(results, "gated", "ungated", ERROR)
    because = f"{found.because}; {attention.text}; {gated.said}"
    if found.status != HELD or attention.clear is None:
        return Verdict(found.status if found.status != HELD else UNTESTED, because)
    if not attention.clear:
        return Verdict(FAILED, f"the law holds, the trained attention is no better; {because}")
    learned = (results.mean("attention", ERROR) or 1.0) < LEARNED
    return Verdict(
        HELD if learned else CONDITION, because if learned else f"little of the product is learned; {because}"
    )


def draw(results: Results, folder: Path) -> Figure | None:
    """The error of every trained row, a point a seed."""
    rows = [row for row in results.rows if results.values(row.id, ERROR)]
    if not rows:
        return None
    pyplot = canvas()
    figure, axis = pyplot.subplots(figsize=(6.4, 1 + 0.5 * len(rows)))
    for place, row in enumerate(rows):
        values = results.values(row.id, ERROR)
        axis.plot(values, [place] * len(values), "o", color=COLOURS[1], alpha=0.7)
    axis.axvline(1.0, color="grey", linewidth=1)
    axis.set_yticks(range(len(rows)), [row.name for row in rows])
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlabel("error / variance of the product (grey: nothing learned)")
    where = folder / "product.png"
    save(pyplot, figure, where)
    said = "; ".join(f"{row.name} {results.mean(row.id, ERROR):.2g}" for row in rows)
    return Figure(where, "Products of two tokens", f"Error: {said}.")
