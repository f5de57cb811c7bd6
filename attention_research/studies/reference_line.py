"""Compares every row of a table with the scale's reference row, in one line below the table.

The differences are those of `row_comparisons.compare`, over the same seeds and with Holm's correction over the rows. A
row with diverged runs says so in place of its difference: its mean is worse than any other. With two seeds, a row's
own pair of differences has one degree of freedom, so that hardly any difference would be clear. The p-value over
seeds is then that of `differences.student_over_rows`, which estimates the variance from all rows of the table.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attention_research.studies.comparisons import Comparison, signed, spelled, together
from attention_research.studies.row_comparisons import compare, runs_of

if TYPE_CHECKING:
    from attention_research.studies.columns import Column
    from attention_research.studies.results import Results

#: Of three rows and more, the variance can be estimated over the rows.
LEAST_ROWS = 3


def with_reference(results: Results) -> str:
    """Every row compared with the scale's reference row, in words; empty if the scale has no reference row.

    The numbers decide which of two rows is tested as the better one. Therefore p is two-sided: twice the smaller one.
    """
    size = results.study.scales.get(results.scale)
    column = size.decided_by if size else None
    if size is None or column is None:
        return ""
    higher, reference = column.better == "higher", size.reference
    pooled = _over_rows(results, reference, column)
    cases, gains = {}, {}
    for row in results.rows:
        ours, theirs = _signed(results, row.id, reference, column)
        if row.id == reference or not ours or not theirs:
            continue
        above = statistics.fmean(ours) > statistics.fmean(theirs)
        pair = (row.id, reference) if above else (reference, row.id)
        one = compare(results, *pair, column.key, higher=higher)
        cases[row.name] = _two_sided(one, pooled.get(row.id))
        gains[row.name] = _gain(column, ours, theirs)
    said = [
        f"{name} {gains[name]}, {one.outcome}" + ("" if one.p is None else f" ({spelled(one.p)})")
        for name, one in together(cases).items()
    ]
    if not said:
        return ""
    name = next((row.name for row in results.rows if row.id == reference), reference)
    how = " The spread of two seeds is estimated from all rows." if pooled else ""
    return f"{column.title}, against {name}: {'; '.join(said)}.{how}"


def _signed(results: Results, row: str, reference: str, column: Column) -> list[list[float]]:
    """The numbers of both rows that `compare` uses, higher ones better; -inf for a diverged run."""
    higher = column.better == "higher"
    *sides, _ = runs_of(results, row, reference, column.key, higher=higher)
    return [signed([value for _, value in side], higher=higher) for side in sides]


def _gain(column: Column, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The difference of the means, as the column shows it, or how many runs diverged."""
    for side, whose in ((ours, ""), (theirs, " of the reference row")):
        if diverged := side.count(-math.inf):
            return f"{diverged} of {len(side)} runs{whose} diverged"
    gain = statistics.fmean(ours) - statistics.fmean(theirs)
    return f"{'+' if (gain if column.better == 'higher' else -gain) > 0 else '-'}{column.text(abs(gain))}"


def _two_sided(found: Comparison, over_rows: float | None) -> Comparison:
    """The comparison with a two-sided p-value. `over_rows` replaces its p-value over seeds."""
    if found.p is None:
        return found
    p = found.p
    if over_rows is not None:
        p = max(over_rows, found.alone.items) if found.alone else over_rows
    return dataclasses.replace(found, p=min(1.0, 2 * p), p_reversed=1.0)


def _over_rows(results: Results, reference: str, column: Column) -> dict[str, float]:
    """Row id -> the one-sided p-value of its difference from the reference row in the direction that was measured.

    Empty unless there are two seeds. Rows without a finite number for each seed of the reference row are left out.
    """
    numbers = {row.id: results.by_seed(row.id, column.key, math.inf) for row in results.rows}
    seeds = [*numbers.get(reference, ())]
    values = {row: [one[seed][1] for seed in seeds] for row, one in numbers.items() if one.keys() == set(seeds)}
    found = {row: both for row, both in values.items() if len(both) == 2 and all(map(math.isfinite, both))}
    if reference not in found or len(found) < LEAST_ROWS:
        return {}
    import numpy as np

    from attention_research.studies.differences import student_over_rows

    others = [row for row in found if row != reference]
    p = student_over_rows(np.array([found[row] for row in (reference, *others)], np.float64))
    return dict(zip(others, p.tolist(), strict=True))
