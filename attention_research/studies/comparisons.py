"""Compares two lists of numbers, one number for each seed: by how much one is better, and how certain that is.

A comparison has two one-sided p-values (`differences`): that `better` is better, and that it is worse. It is clear if
the first is at most `LEVEL`, and reversed if the second is. If several comparisons make one claim, their p-values are
corrected (`together`).

Equality (`within`) is shown only within a margin that was declared in advance. With few seeds most differences are not
clear, so "not clear" is no evidence of equality.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LEVEL = 0.05
NO_MARGIN = "no margin was declared"
#: The possible outcomes of a comparison.
CLEAR, REVERSED, OPEN, UNMEASURED = "clear", "reversed", "not clear", "not measured"


class Alone(NamedTuple):
    """The separate p-values of a comparison over seeds and over test items, not corrected."""

    seeds: float
    items: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """By how much one row is better than another, and the p-values of both directions.

    `p` is None if there are fewer than two seeds. `said` describes the two means and, without p, the reason. `items` is
    the number of test items if p includes a test over them. Then `alone` and `alone_reversed` hold the separate
    p-values, and `p` and `p_reversed` are the larger ones of each pair.
    """

    better: str
    worse: str
    gain: float | None
    said: str
    p: float | None = None
    p_reversed: float | None = None
    seeds: int = 0
    items: int = 0
    alone: Alone | None = None
    alone_reversed: Alone | None = None

    @property
    def outcome(self) -> str:
        if self.p is None or self.p_reversed is None:
            return UNMEASURED
        return CLEAR if self.p <= LEVEL else REVERSED if self.p_reversed <= LEVEL else OPEN

    @property
    def clear(self) -> bool | None:
        """Whether the comparison is clear; None if it was not measured."""
        return None if self.outcome == UNMEASURED else self.outcome == CLEAR

    @property
    def numbers(self) -> str:
        """The means, with the number of seeds and the p-value that decides the outcome."""
        return f"{self.said}{self._certainty}"

    @property
    def text(self) -> str:
        """The numbers with the outcome in words."""
        return self.said if self.outcome == UNMEASURED else f"{self.said}, {self.outcome}{self._certainty}"

    @property
    def _certainty(self) -> str:
        if self.p is None or self.p_reversed is None or not self.seeds:
            return ""
        turned = self.outcome == REVERSED
        p, alone = (self.p_reversed, self.alone_reversed) if turned else (self.p, self.alone)
        over, of = f"{self.seeds} seeds", ""
        if alone is not None:
            over += f" and {self.items:,} test items"
            of = f", over seeds alone {spelled(alone.seeds)}, over items alone {spelled(alone.items)}"
        return f" over {over} ({spelled(p)}{of})"


def between(
    better: str,
    worse: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    name: str,
    *,
    in_pairs: bool = False,
    higher: bool = True,
) -> Comparison:
    """Compares two lists with one number for each seed. `better` and `worse` name the two sides.

    NaN and the worst infinite value mean that the run diverged. Lower numbers are better unless `higher`. With
    ``in_pairs`` the i-th numbers of both lists are a pair.

    >>> found = between("scaled", "unscaled", [21.0, 20.6, 20.8], [19.9, 20.1, 19.7], "bleu", in_pairs=True)
    >>> print(found.text)
    bleu 20.8 (scaled) against 19.9 (unscaled), clear over 3 seeds (p = 0.023)
    """
    ours, theirs = signed(ours, higher=higher), signed(theirs, higher=higher)
    gain, said = described(better, worse, ours, theirs, name, higher=higher)
    seeds = min(len(ours), len(theirs))
    if seeds < 2:
        return Comparison(better, worse, gain, f"{said}, one seed: nothing is clear" if seeds else said)
    from attention_research.studies.differences import p_above  # imports NumPy, which planning does not need

    p = p_above(ours, theirs, in_pairs=in_pairs)
    return Comparison(better, worse, gain, said, p, p_above(theirs, ours, in_pairs=in_pairs), seeds)


def certain(better: str, worse: str, gain: float, said: str) -> Comparison:
    """A comparison of exact numbers, such as counts.

    >>> certain("linformer", "standard", 3.0, "3 GB less").text
    '3 GB less, clear'
    """
    p = 0.0 if gain > 0 else 1.0 if gain < 0 else 0.5
    return Comparison(better, worse, gain, said, p, 1.0 - p)


@dataclasses.dataclass(frozen=True)
class Margin:
    """The largest difference at which two numbers count as equal: absolute, or relative to the second number."""

    value: float
    relative: bool = False

    @staticmethod
    def parse(text: str) -> Margin | None:
        """Parses ``0.5`` or ``3%``, as in claims.csv; None for an empty text.

        >>> str(Margin.parse("3%")), Margin.parse("3%").of(-50), Margin.parse("")
        ('3%', 1.5, None)
        """
        value = text.strip()
        if not value:
            return None
        number = float(value.removesuffix("%"))
        if not 0 < number < math.inf:
            raise ValueError(f"margin {text!r}: expected a number above 0, or one with %")
        return Margin(number / 100, True) if value.endswith("%") else Margin(number)

    def of(self, mean: float) -> float:
        return self.value * abs(mean) if self.relative else self.value

    def __str__(self) -> str:
        return f"{100 * self.value:g}%" if self.relative else f"{self.value:g}"


def within(
    row: str,
    other: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    name: str,
    margin: Margin | None,
    *,
    in_pairs: bool = False,
    higher: bool = False,
    both: bool = False,
) -> Comparison:
    """`no_worse`, or `equivalent` if `both`, for two lists with one number for each seed.

    >>> ours, theirs = [21.0, 20.6, 20.8], [20.9, 20.7, 20.9]
    >>> found = within("linformer", "standard", ours, theirs, "bleu", Margin(0.5), in_pairs=True, higher=True)
    >>> print(found.text)
    bleu 20.8 (linformer) against 20.8 (standard), margin 0.5, clear over 3 seeds (p = 0.0099)
    """
    ours, theirs = signed(ours, higher=higher), signed(theirs, higher=higher)
    gain, said = described(row, other, ours, theirs, name, higher=higher)
    if margin is None or min(len(ours), len(theirs)) < 2:
        why = [NO_MARGIN] if margin is None else ["one seed: nothing is clear"] if ours and theirs else []
        return Comparison(row, other, gain, ", ".join([said, *why]))
    diverged = -math.inf in (*ours, *theirs)
    size = 0.0 if diverged else margin.of(statistics.fmean(theirs))
    from attention_research.studies.differences import p_above

    test = lambda first, second, less: p_above(first, second, in_pairs=in_pairs, margin=less) or 0.0
    p, p_reversed = test(ours, theirs, size), test(theirs, ours, -size)
    if both:
        p_reversed = min(1.0, 2 * min(p_reversed, test(ours, theirs, -size)))
        p = 1.0 if diverged else max(p, test(theirs, ours, size))
    return Comparison(row, other, gain, f"{said}, margin {margin}", p, p_reversed, min(len(ours), len(theirs)))


def together(cases: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """The comparisons of one claim, with p-values corrected by Holm's method in each direction."""
    there = {name: case for name, case in cases.items() if case.p is not None and case.p_reversed is not None}
    from attention_research.studies.significance import holm

    p, p_reversed = (holm({name: getattr(case, one) for name, case in there.items()}) for one in ("p", "p_reversed"))
    changed = {name: dataclasses.replace(there[name], p=p[name], p_reversed=p_reversed[name]) for name in there}
    return {name: changed.get(name, case) for name, case in cases.items()}


def signed(values: Sequence[float], *, higher: bool) -> list[float]:
    sign = 1.0 if higher else -1.0
    return [-math.inf if math.isnan(value) else sign * value for value in values]


def described(
    better: str, worse: str, ours: list[float], theirs: list[float], name: str, *, higher: bool
) -> tuple[float | None, str]:
    """The gain, and a description of both means; the gain is None if a side has no numbers."""
    if not ours or not theirs:
        missing = " and ".join(row for row, values in ((better, ours), (worse, theirs)) if row and not values)
        return None, f"{name} of {missing} not measured"
    first, second = statistics.fmean(ours), statistics.fmean(theirs)
    means = [f"{mean if higher else 0.0 - mean:.3g}" if math.isfinite(mean) else "diverged" for mean in (first, second)]
    than = f" ({worse})" if worse else ""
    return first - second if first != second else 0.0, f"{name} {means[0]} ({better}) against {means[1]}{than}"


def spelled(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"
