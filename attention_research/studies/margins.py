"""That two rows are equal, or one no worse: shown only within a margin that was declared beforehand.

"Not clear" is no evidence of equality: few seeds leave every difference unclear. Here the differences that the margin
excludes are tested. Without a margin nothing is.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attention_research.studies.comparisons import Comparison, described, learned, numbers_of, signed
from attention_research.studies.differences import p_above

if TYPE_CHECKING:
    from attention_research.studies.results import Results

NO_MARGIN = "no margin was declared"


@dataclasses.dataclass(frozen=True)
class Margin:
    """How far apart two numbers may be and still count as equal: a number, or a share of the second one's size."""

    value: float
    relative: bool = False

    @staticmethod
    def parse(text: str) -> Margin | None:
        """``0.5`` or ``3%``, as claims.csv has it; None of an empty text.

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


def no_worse(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool = False
) -> Comparison:
    """That a row is worse than another by less than a margin; reversed where it is worse by more."""
    ours, theirs, in_pairs = numbers_of(results, row, other, key, higher=higher)
    found = within(row, other, ours, theirs, key.split(".")[1], margin, in_pairs=in_pairs, higher=higher)
    return learned(results, found, row)


def equivalent(
    results: Results, row: str, other: str, key: str, margin: Margin | None, *, higher: bool = False
) -> Comparison:
    """That two rows differ by less than a margin: the larger p of two one-sided tests (Schuirmann 1987); reversed where
    they differ by more."""
    ours, theirs, in_pairs = numbers_of(results, row, other, key, higher=higher)
    found = within(row, other, ours, theirs, key.split(".")[1], margin, in_pairs=in_pairs, higher=higher, both=True)
    return learned(results, found, row, other)


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
    """`no_worse`, or with `both` `equivalent`, of two lists of numbers a seed."""
    ours, theirs = signed(ours, higher=higher), signed(theirs, higher=higher)
    gain, said = described(row, other, ours, theirs, name, higher=higher)
    if margin is None or min(len(ours), len(theirs)) < 2:
        why = [NO_MARGIN] if margin is None else ["one seed: nothing is clear"] if ours and theirs else []
        return Comparison(row, other, gain, ", ".join([said, *why]))
    diverged = -math.inf in (*ours, *theirs)
    size = 0.0 if diverged else margin.of(statistics.fmean(theirs))
    test = lambda first, second, less: p_above(first, second, in_pairs=in_pairs, margin=less) or 0.0
    p, p_reversed = test(ours, theirs, size), test(theirs, ours, -size)
    if both:
        p_reversed = min(1.0, 2 * min(p_reversed, test(ours, theirs, -size)))
        p = 1.0 if diverged else max(p, test(theirs, ours, size))
    return Comparison(row, other, gain, f"{said}, margin {margin}", p, p_reversed, min(len(ours), len(theirs)))
