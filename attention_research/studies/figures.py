"""Figures of a study: loss curves, numbers by row with their spread, and time or memory against length.

Figures of a single study import what they need from here. matplotlib is installed with the extra ``report``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.studies.column_figures import by_row, draw_against, draw_by_row
from attention_research.studies.columns import BLEU, F1
from attention_research.studies.figure_caption import Figure, caption, save
from attention_research.studies.figure_style import (
    BASELINE,
    COLOURS,
    MEAN,
    PUBLISHED,
    SEED,
    canvas,
    groups_as_points,
    legend,
    mark_plainly,
    row_styles,
    rows_as_points,
    styles_of,
)
from attention_research.studies.loss_figure import draw_loss
from attention_research.studies.results import Results

__all__ = (
    "BASELINE",
    "COLOURS",
    "MEAN",
    "PUBLISHED",
    "SEED",
    "Figure",
    "by_row",
    "canvas",
    "caption",
    "draw",
    "groups_as_points",
    "heat_maps",
    "legend",
    "mark_plainly",
    "row_styles",
    "rows_as_points",
    "save",
    "styles_of",
    "worth_recording",
)

#: The figures that every study may have: the loss curve, and columns of its table.
_OF_EVERY_STUDY = ("loss.png", "bleu.png", "f1.png")


def draw(results: Results, folder: Path) -> list[Figure]:
    """Draws the study's figures into ``folder``. Figures without results are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [draw_loss(results, folder / "loss.png")]
    for column in (BLEU, F1):
        own = next((one for one in results.columns if one.key == column.key), column)
        drawn.append(draw_by_row(results, own, folder / f"{column.key.split('.')[1]}.png"))
    for column in results.columns:
        if column.at_points and len(results.points) > 1:
            drawn.append(draw_against(results, column, folder / f"{column.key.split('.')[1]}.png"))
    drawn += [function(results, folder) for function in results.study.figures]
    return [figure for figure in drawn if figure]


def worth_recording(drawn: Sequence[Figure]) -> list[Figure]:
    """The figures to record: the study's own, or the loss curve if it has none. The others repeat the table."""
    own = [figure for figure in drawn if figure.path.name not in _OF_EVERY_STUDY]
    return own or [figure for figure in drawn if figure.path.name == _OF_EVERY_STUDY[0]]


def heat_maps(results: Results, path: Path, maps: Sequence[Mapping[str, Any]], what: str) -> Figure | None:
    """Draws alignments with `analysis.alignment_figure`; None without any. A map may have a "title"."""
    if not maps:
        return None
    from attention_research.analysis import alignment_figure

    marks = f"{what}; rows: target, columns: source"
    save(alignment_figure.figure_of(maps), path, caption(results, marks, seeds="1 seed"))
    said = [
        f"{one.get('title', '')}: {' '.join(one['source'])} -> {' '.join(one['target'])}".removeprefix(": ")
        for one in maps
    ]
    title = f"Alignment weights, {what}: rows are written, columns read; white is 1"
    return Figure(path, title, f"Heat maps. {'; '.join(said)}.")
