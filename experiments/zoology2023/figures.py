"""The figure of the study: accuracy by width for each mixer, with the published curves."""

from __future__ import annotations

from pathlib import Path

from attention_research.studies.figures import COLOURS, Figure, canvas, caption, legend, save
from attention_research.studies.results import Results

from .grid import MIXERS, WIDTHS, best

#: Accuracies in percent, read off the published figure at 64 positions and 4 pairs. RWKV is version 4.
PRINTED = {
    "attention": {64: 100.0, 128: 100.0},
    "hyena": {64: 52.0, 128: 75.0},
    "rwkv7": {64: 76.0},
}
CHANCE = 25.0


def draw_by_width(results: Results, folder: Path) -> Figure | None:
    """Draws the best of four rates of each mixer against the width, and the published accuracies as diamonds."""
    found = {mixer: {w: a for w in WIDTHS if (a := best(results, mixer, w)) is not None} for mixer in MIXERS}
    found = {mixer: points for mixer, points in found.items() if points}
    if not found:
        return None
    figure, axis = canvas().subplots(figsize=(6, 4))
    for number, (mixer, points) in enumerate(found.items()):
        colour = COLOURS[number % len(COLOURS)]
        axis.plot(list(points), list(points.values()), "o-", color=colour, label=MIXERS[mixer])
        printed = PRINTED.get(mixer, {})
        axis.plot(list(printed), list(printed.values()), "D--", color=colour, markerfacecolor="none", markersize=8)
    axis.axhline(CHANCE, color="grey", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_xticks(WIDTHS, list(map(str, WIDTHS)))
    axis.set_xlabel("width")
    axis.set_ylabel("accuracy, %")
    legend(figure)
    where = folder / "by_width.png"
    marks = "circles: best of four rates; diamonds: read off the published figure; grey: guessing one of the values"
    save(figure, where, caption(results, marks))
    said = "; ".join(
        f"{MIXERS[mixer]} {', '.join(f'{accuracy:.0f} at {width}' for width, accuracy in points.items())}"
        for mixer, points in found.items()
    )
    return Figure(
        where, "Accuracy of associative recall by width, the best of four rates", f"Accuracy in percent: {said}."
    )
