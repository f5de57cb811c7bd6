"""Significance tests for rows of a table, and rank correlations between two tables."""

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

_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?(?=$| )")


class Difference(NamedTuple):
    """The mean of paired differences, and its two-sided p-value."""

    mean: float
    p: float


class Correlation(NamedTuple):
    """Spearman's rank correlation of `pairs` pairs, with its confidence interval.

    A correlation of 1 or -1 has no interval, because the formula gives it no width.
    """

    rho: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        interval = f"{self.low:.2f} to {self.high:.2f}, " if self.low < self.high else ""
        return f"{self.rho:.2f} ({interval}{self.pairs} rows)"


def paired(values: Sequence[float], others: Sequence[float]) -> Difference:
    """Student's paired t test (two-sided) of values[i] - others[i]. Raises ValueError for fewer than two pairs.

    >>> difference = paired([3.1, 3.4, 3.3], [2.9, 3.0, 3.1])
    >>> round(difference.mean, 3), round(difference.p, 3)
    (0.267, 0.057)
    """
    from scipy.stats import ttest_rel

    if len(values) != len(others) or len(values) < 2:
        raise ValueError(f"values: expected pairs, at least two; got {len(values)} and {len(others)}")
    differences = [a - b for a, b in zip(values, others, strict=True)]
    mean = statistics.fmean(differences)
    if min(differences) == max(differences):  # the differences have no spread
        return Difference(mean, float(mean == 0))
    return Difference(mean, float(ttest_rel(values, others).pvalue))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """p-values adjusted by Holm's method (1979), which bounds the probability of any false finding among all of them.

    >>> {name: round(p, 2) for name, p in holm({"a": 0.01, "b": 0.04, "c": 0.03}).items()}
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    return dict(zip(p_values, adjusted(np.asarray(list(p_values.values()), np.float64)).tolist(), strict=True))


def adjusted(p: Float[np.ndarray, "*B k"]) -> Float[np.ndarray, "*B k"]:
    """`holm` along the last axis: the i-th smallest of k p-values, from i = 0, times k - i, made non-decreasing.

    >>> print(adjusted(np.array([0.01, 0.04, 0.03])))
    [0.03 0.06 0.06]
    """
    order = np.argsort(p, axis=-1)
    times = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1)
    highest = np.minimum(np.maximum.accumulate(times, axis=-1), 1.0)
    return np.take_along_axis(highest, np.argsort(order, axis=-1), -1)


def rank_correlation(x: Sequence[float], y: Sequence[float], level: float = 0.95) -> Correlation:
    """Spearman's rho with the interval of Bonett & Wright 2000: tanh(atanh rho ± z sqrt((1 + rho^2 / 2) / (n - 3))).

    NaN if all numbers of a side are equal. Raises ValueError for fewer than four pairs.

    >>> print(rank_correlation([1, 2, 3, 4, 5], [10, 30, 20, 40, 50]))
    0.90 (-0.17 to 1.00, 5 rows)
    """
    from scipy.stats import spearmanr

    if len(x) != len(y) or len(x) < 4:
        raise ValueError(f"x: expected pairs, at least four; got {len(x)} and {len(y)}")
    rho = float(spearmanr(x, y).statistic) if len(set(x)) > 1 < len(set(y)) else math.nan
    return _interval(rho, len(x), len(x), level)


def partial_rank_correlation(
    x: Sequence[float], y: Sequence[float], given: Sequence[float], level: float = 0.95
) -> Correlation:
    """The partial Spearman's rho of x and y given z: (r_xy - r_xz r_yz) / sqrt((1 - r_xz^2) (1 - r_yz^2)).

    `given` is z. The interval is that of `rank_correlation` with one pair less, for the fixed variable. NaN if x or y
    has the same order as `given`, or the reverse. Raises ValueError for fewer than five triples.

    >>> print(partial_rank_correlation([1, 2, 3, 4, 5, 6], [1, 3, 2, 4, 5, 6], given=[2, 1, 4, 3, 6, 5]))
    0.94 (0.11 to 1.00, 6 rows)
    """
    if not len(x) == len(y) == len(given) or len(x) < 5:
        raise ValueError(f"x: expected triples, at least five; got {len(x)}, {len(y)} and {len(given)}")
    xy, xz, yz = (rank_correlation(*pair, level).rho for pair in ((x, y), (x, given), (y, given)))
    left = (1 - xz**2) * (1 - yz**2)
    return _interval((xy - xz * yz) / math.sqrt(left) if left > 1e-12 else math.nan, len(x), len(x) - 1, level)


def _interval(rho: float, pairs: int, free: int, level: float) -> Correlation:
    """The correlation with its interval for `free` independent pairs."""
    if not abs(rho) < 1:
        return Correlation(rho, rho, rho, pairs)
    half = statistics.NormalDist().inv_cdf((1 + level) / 2) * math.sqrt((1 + rho**2 / 2) / (free - 3))
    return Correlation(rho, math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half), pairs)


def leading_number(cell: str) -> float | None:
    """The number at the start of a published cell; None if there is none.

    >>> [leading_number(cell) for cell in ("18.22 ± 0.03", "1,024", "5.3e-5", "213M", "")]
    [18.22, 1024.0, 5.3e-05, None, None]
    """
    found = _NUMBER.match(cell)
    return float(found[0].replace(",", "")) if found else None


def agreement(results: Results, cells: dict[str, dict[str, str]]) -> list[str]:
    """One line for each number of `Study.compared` with at least four rows: its rank correlation with published cells.

    The number of parameters explains much of such an order, so the line also gives the partial correlation with this
    number held fixed.
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
        said.append(f"Spearman's rank correlation of our {titles.get(key, key)} with the published {printed}: {found}.")
    return said
