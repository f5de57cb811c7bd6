"""The line below each figure of a study: the study, the scale, the number of seeds, and the meaning of the marks."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attention_research.analysis import picture_file
from attention_research.training.workdir import writing

if TYPE_CHECKING:
    from attention_research.studies.results import Results


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure that was written to a file, with its title and its alternative text."""

    path: Path
    title: str
    alt: str


def caption(results: Results, marks: str, *, rows: Collection[str] = (), seeds: str = "") -> str:
    """For example "lectures/heads, cpu scale, 3 seeds; bars: standard deviation".

    `marks` says what lines, bands and points mean. `rows` are the ids of the drawn rows, by default all. `seeds`
    replaces the number of seeds, for a figure of one seed or without any.
    """
    return f"{results.study.name}, {results.scale} scale, {seeds or seeds_said(results, rows)}; {marks}"


def seeds_said(results: Results, rows: Collection[str] = ()) -> str:
    """The number of finished seeds of the rows: "3 seeds", or "2 to 3 seeds" if the rows differ."""
    found = defaultdict(set)
    for entry in results.entries:
        if entry.result is not None and (not rows or entry.trial.row in rows):
            found[entry.trial.row].add(entry.trial.seed)
    counts = sorted({len(seeds) for seeds in found.values()} or {0})
    said = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return f"{said} seed{'' if counts[-1] == 1 else 's'}"


def save(figure: Any, path: Path, line: str = "") -> None:
    """Writes a figure with a line of text below it to a file of limited size, and closes it."""
    from matplotlib import pyplot

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    picture_file.save(figure, path, below=line, bbox_inches="tight")
    pyplot.close(figure)
