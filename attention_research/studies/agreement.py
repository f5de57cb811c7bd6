"""Whether our rows stand in the paper's order: rank correlation with the printed cells, positive or not.

A study says which of its numbers measures what a printed column measures (`Study.compared`). More parameters explain
much of any such order, so that the correlation is also given with the number of parameters held fixed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attention_research.studies.significance import partial_rank_correlation, rank_correlation

if TYPE_CHECKING:
    from attention_research.studies.results import Results

PARAMETERS = "inspect.parameters"
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(?=$| )")


def number(cell: str) -> float | None:
    """The number that a printed cell begins with; None where it is none.

    >>> number("18.22 +- 0.03"), number("1,024"), number("213M"), number("")
    (18.22, 1024.0, None, None)
    """
    found = _NUMBER.match(cell)
    return float(found[0].replace(",", "")) if found else None


def lines(results: Results, cells: dict[str, dict[str, str]]) -> list[str]:
    """For each compared number with four rows or more, Spearman's correlation of our means with the printed `cells`."""
    titles = {column.key: column.title for column in results.study.columns}
    said = []
    for key, printed in results.study.compared.items():
        theirs = {row.id: number(cells.get(row.id, {}).get(printed, "")) for row in results.rows}
        pairs = {row: (mean, cell) for row, cell in theirs.items()
                 if cell is not None and (mean := results.mean(row, key)) is not None}  # fmt: skip
        if len(pairs) < 4:
            continue
        ours, there = ([pair[side] for pair in pairs.values()] for side in (0, 1))
        found = f"{rank_correlation(ours, there)}"
        given = [count for row in pairs if (count := results.mean(row, PARAMETERS)) is not None]
        if len(given) == len(pairs) > 4 and len(set(given)) > 1:
            found += f", with the number of parameters held fixed {partial_rank_correlation(ours, there, given)}"
        said.append(f"Spearman's rank correlation of our {titles.get(key, key)} with the printed {printed}: {found}.")
    return said
