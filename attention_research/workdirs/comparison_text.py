"""Prints the result of `compare` within the width of a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attention_research.config.values import spell
from attention_research.errors import printable
from attention_research.studies.footnotes import markdown_table
from attention_research.workdirs.comparison import Comparison
from attention_research.workdirs.replicas import spelled

#: The width of the text where the output is not a terminal and COLUMNS is not set.
WIDTH = 100


def text(comparison: Comparison, width: int | None = None) -> str:
    """The comparison as tables of at most `width` characters (default: the width of the terminal).

    Where the names of the folders do not fit above the columns, the runs are numbered and listed first. Entries that
    are still too long for a table follow it, with one line for each value.
    """
    width = width or shutil.get_terminal_size((WIDTH, 24)).columns
    runs = [printable(run) for run in comparison.runs]
    parts = list(_parts(comparison))
    numbered = any(_width([[title, *runs], *lines]) > width for title, lines in parts)
    names = [str(number) for number in range(1, len(runs) + 1)] if numbered else runs
    found = ["".join(f"{number}  {run}\n" for number, run in zip(names, runs, strict=True))] if numbered else []
    for title, lines in parts:
        fitting, long = _parted(title, names, lines, width)
        found += [markdown_table([[title, *names], *fitting])] if fitting else []
        found += [_listed(title, names, long, width)] if long else []
        if title == "numbers" and not comparison.config:
            found.append(f"the same config, {comparison.hashes[0]}\n")
    return "\n".join(found).replace("\\|", "|")


def _parts(comparison: Comparison) -> Iterator[tuple[str, list[list[str]]]]:
    """(title, a line of cells for each name) of the numbers, and of each other part that has entries."""
    numbers = {
        name: [
            _number(value, spread)
            for value, spread in zip(cells, comparison.spreads.get(name, [None] * len(cells)), strict=True)
        ]
        for name, cells in comparison.numbers.items()
    }
    yield "numbers", [[name, *cells] for name, cells in numbers.items()]
    differing: list[tuple[str, Mapping[str, list[Any]]]] = [
        ("config", comparison.config), ("environment", comparison.environment), ("scoring", comparison.scoring),
    ]  # fmt: skip
    for title, values in differing:
        if values:
            yield title, [[name, *map(spell, cells)] for name, cells in values.items()]


def _parted(
    title: str, names: Sequence[str], lines: Sequence[list[str]], width: int
) -> tuple[list[list[str]], list[list[str]]]:
    """The lines that fit into one table of this width, and the others."""
    if _width([[title, *names], *lines]) <= width:
        return [*lines], []
    separators = 3 * len(names) + 4
    most = (width - separators - max(len(line[0]) for line in lines)) // len(names)
    fitting = [line for line in lines if all(len(cell) <= most for cell in (*names, *line[1:]))]
    return fitting, [line for line in lines if line not in fitting]


def _width(table: Sequence[Sequence[str]]) -> int:
    return len(markdown_table(table).partition("\n")[0])


def _listed(title: str, names: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> str:
    """Each name, and below it the value of each run, wrapped."""
    wide = max(map(len, names))
    found = [title]
    for name, *cells in lines:
        found.append(f"  {name}")
        for run, cell in zip(names, cells, strict=True):
            start = f"    {run:<{wide}}  "
            found += textwrap.wrap(
                cell, width, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False
            ) or [start.rstrip()]
    return "\n".join(found) + "\n"


def _number(value: float | None, spread: float | None = None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else spelled(value, spread)
