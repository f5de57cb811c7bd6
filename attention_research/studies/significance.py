"""Which rows of a table differ, and whether two tables agree on their order."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from attention_research.studies.results import Results

_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(?=$| )")


class Difference(NamedTuple):
    """A mean of paired differences, and the probability of one as large either way if there were none."""

    mean: float
    p: float


class Correlation(NamedTuple):
    """Spearman's rank correlation of `pairs` pairs, and the interval that holds the true one at a level; one of 1 has
    none, as its formula leaves it no width."""

    rho: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        interval = f"{self.low:.2f} to {self.high:.2f}, " if self.low < self.high else ""
        return f"{self.rho:.2f} ({interval}{self.pairs} rows)"


def paired(values: Sequence[float], others: Sequence[float]) -> Difference:
    """values[i] - others[i] by Student's paired t test (two-sided). Raises ValueError with fewer than two pairs."""
    from scipy.stats import ttest_rel

    if len(values) != len(others) or len(values) < 2:
        raise ValueError(f"values: expected pairs, at least two; got {len(values)} and {len(others)}")
    differences = [a - b for a, b in zip(values, others, strict=True)]
    mean = statistics.fmean(differences)
    if min(differences) == max(differences):  # no spread at all
        return Difference(mean, float(mean == 0))
    return Difference(mean, float(ttest_rel(values, others).pvalue))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm 1979: adjusted so that the chance of any false finding among all stays below the level that one asks for.

    >>> {name: round(p, 2) for name, p in holm({"a": 0.01, "b": 0.04, "c": 0.03}).items()}
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    return dict(zip(p_values, adjusted(np.asarray(list(p_values.values()), np.float64)).tolist(), strict=True))


def adjusted(p: Float[np.ndarray, "*B k"]) -> Float[np.ndarray, "*B k"]:
    """`holm` along the last axis: the i-th smallest of k, from 0, times k - i, no less than the one before it."""
    order = np.argsort(p, axis=-1)
    times = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1)
    highest = np.minimum(np.maximum.accumulate(times, axis=-1), 1.0)
    return np.take_along_axis(highest, np.argsort(order, axis=-1), -1)


def rank_correlation(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> Correlation:
    """Spearman's rho with the interval of Bonett & Wright 2000: tanh(atanh rho +- z sqrt((1 + rho^2 / 2) / (n - 3))).

    Where all of one side are equal there is no order to agree with: nan. Raises ValueError with fewer than four pairs.
    """
    from scipy.stats import spearmanr

    if len(x) != len(y) or len(x) < 4:
        raise ValueError(f"x: expected pairs, at least four; got {len(x)} and {len(y)}")
    rho = float(spearmanr(x, y).statistic) if len(set(x)) > 1 < len(set(y)) else math.nan
    return _interval(rho, len(x), len(x), level)


def partial_rank_correlation(
    x: Sequence[float], y: Sequence[float], given: Sequence[float], level: float = 0.95
) -> Correlation:
    """Spearman's rho of x and y with `given` held fixed: (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2) (1 - r_yz^2)).

    The interval is that of `rank_correlation` with one pair less, as one number is held fixed. Where x or y is in the
    order of `given` nothing is left to agree on: nan. Raises ValueError with fewer than five triples.
    """
    if not len(x) == len(y) == len(given) or len(x) < 5:
        raise ValueError(f"x: expected triples, at least five; got {len(x)}, {len(y)} and {len(given)}")
    xy, xz, yz = (rank_correlation(*pair, level).rho for pair in ((x, y), (x, given), (y, given)))
    left = (1 - xz**2) * (1 - yz**2)
    return _interval((xy - xz * yz) / math.sqrt(left) if left > 1e-12 else math.nan, len(x), len(x) - 1, level)


def _interval(rho: float, pairs: int, free: int, level: float) -> Correlation:
    """Around rho, as of `free` independent pairs."""
    if not abs(rho) < 1:
        return Correlation(rho, rho, rho, pairs)
    half = statistics.NormalDist().inv_cdf((1 + level) / 2) * math.sqrt((1 + rho**2 / 2) / (free - 3))
    return Correlation(rho, math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half), pairs)


def leading_number(cell: str) -> float | None:
    """The number that a printed cell begins with; None where it is none.

    >>> [leading_number(cell) for cell in ("18.22 +- 0.03", "1,024", "213M", "")]
    [18.22, 1024.0, None, None]
    """
    found = _NUMBER.match(cell)
    return float(found[0].replace(",", "")) if found else None


def agreement(results: Results, cells: dict[str, dict[str, str]]) -> list[str]:
    """For each number of `Study.compared` with four rows or more, whether our means stand in the order of the printed
    `cells`, in a line. More parameters explain much of any such order: also the correlation with their number fixed.
    """
    titles = {column.key: column.title for column in results.study.columns}
    said = []
    for key, printed in results.study.compared.items():
        theirs = {row.id: leading_number(cells.get(row.id, {}).get(printed, "")) for row in results.rows}
        pairs = {row: (mean, cell) for row, cell in theirs.items()
                 if cell is not None and (mean := results.mean(row, key)) is not None}  # fmt: skip
        if len(pairs) < 4:
            continue
        ours, there = ([pair[side] for pair in pairs.values()] for side in (0, 1))
        found = f"{rank_correlation(ours, there)}"
        given = [count for row in pairs if (count := results.mean(row, "inspect.parameters")) is not None]
        if len(given) == len(pairs) > 4 and len(set(given)) > 1:
            found += f", with the number of parameters held fixed {partial_rank_correlation(ours, there, given)}"
        said.append(f"Spearman's rank correlation of our {titles.get(key, key)} with the printed {printed}: {found}.")
    return said
