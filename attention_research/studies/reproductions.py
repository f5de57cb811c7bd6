"""Published numbers and ours, for the studies that train at the size of their paper.

A study is one of these if its CSV of published numbers has a column ``differs``, which says for each published row
what differs from the published system. Rows with nothing there are not in the paper. A cell is compared if
`Study.compared` names its column.

A published number is inside if it could be another seed of ours: if it lies in the 95 % prediction interval of one
more run, mean ± t s sqrt(1 + 1/n) for n seeds with sample standard deviation s, where t has n - 1 degrees of freedom.
Half a unit of the last published digit is allowed on both sides. One seed, or equal numbers, give an interval without
width.
"""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

from attention_research.studies.loading import find_studies, load_study
from attention_research.studies.results import DIFFERS, Results, published
from attention_research.studies.study import Study

LEVEL = 0.95
SCALE = "paper"
INSIDE, OUTSIDE, UNRECORDED, UNRUN = "inside", "outside", "not recorded", "not run"
_NUMBER = re.compile(r"-?(?:\d[\d,]*)?\.?\d+(?:[eE][-+]?\d+)?")


@dataclasses.dataclass(frozen=True)
class Reproduced:
    """A published number of a row, and our numbers, one for each seed. `run` is whether the study trains the row.

    `text` is our mean as the table prints it, and `differs` what differs from the published system.
    """

    row: str
    what: str
    printed: str
    ours: tuple[float, ...] = ()
    text: str = ""
    differs: str = ""
    run: bool = True

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of another run of ours."""
        return predicted(self.ours)

    @property
    def ratio(self) -> float | None:
        """Our mean divided by the published number; None without a number of ours, and for a published 0."""
        value, _ = number(self.printed)
        return statistics.fmean(self.ours) / value if self.ours and value else None

    @property
    def outcome(self) -> str:
        """Whether the published number is inside, or why there is none of ours."""
        if not self.ours:
            return UNRECORDED if self.run else UNRUN
        value, half = number(self.printed)
        low, high = self.interval
        return INSIDE if low - half <= value <= high + half else OUTSIDE


def number(cell: str) -> tuple[float, float]:
    """The first number of a published cell, and half a unit of its last digit.

    >>> number("39.61"), number("5.3e-5"), number("1,024 ± 3")
    ((39.61, 0.005), (5.3e-05, 5e-07), (1024.0, 0.5))
    """
    found = _NUMBER.search(cell)
    if found is None:
        raise ValueError(f"a published cell: expected a number, got {cell!r}")
    value = Decimal(found[0].replace(",", ""))
    return float(value), float(Decimal((0, (5,), int(value.as_tuple().exponent) - 1)))


def predicted(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The prediction interval of one more value.

    >>> low, high = predicted([39.0, 40.0, 41.0])
    >>> round(low, 2), round(high, 2)
    (35.03, 44.97)
    """
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 and math.isfinite(mean) else 0.0
    if deviation == 0.0:
        return mean, mean
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, len(values) - 1)) * deviation * math.sqrt(1 + 1 / len(values))
    return mean - half, mean + half


def studies(experiments: Path) -> Iterator[Study]:
    """The studies that train at the size of their paper, by name."""
    for name in sorted(find_studies(experiments)):
        study = load_study(name, experiments)
        if any(DIFFERS in cells for cells in published(study, SCALE).values()):
            yield study


def cells(results: Results) -> list[Reproduced]:
    """The compared cells of a study, in the order of its rows."""
    study, found = results.study, []
    theirs = {row: one for row, one in published(study, SCALE).items() if DIFFERS in one}
    columns = {column.key: column for column in results.columns}
    for row in study.rows:
        for key, what in study.compared.items():
            if printed := theirs.get(row.id, {}).get(what):
                ours = results.values(row.id, key)
                text = columns[key].text(statistics.fmean(ours)) if ours else ""
                run = row.scales is None or SCALE in row.scales
                found.append(Reproduced(row.name, what, printed, ours, text, theirs[row.id][DIFFERS], run))
    return found
