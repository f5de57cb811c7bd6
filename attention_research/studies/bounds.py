"""Limits the size of a trial's result: its curves, samples and lists of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

#: The largest numbers of points of a curve, of samples of an evaluation, and of characters of a sample's text.
POINTS, SAMPLES, CHARACTERS = 200, 8, 200
#: Significant digits of a number in a list, such as a point of a curve. Numbers outside lists keep all digits.
DIGITS = 6


def bounded(result: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's result with thinned curves, shortened samples and rounded numbers in lists.

    A result that is within the limits does not change.
    """
    stages = {name: _stage(numbers) for name, numbers in result["stages"].items()}
    curves = {split: thinned(points) for split, points in result.get("curves", {}).items()}
    return {**result, "stages": stages, "curves": _rounded(curves)}


def thinned(points: list[Any]) -> list[Any]:
    """At most `POINTS` points of a curve at equal distances, with the first and the last point.

    >>> len(thinned(list(range(1000)))), thinned(list(range(1000)))[-1]
    (200, 999)
    """
    kept = points[:: math.ceil(len(points) / POINTS) or 1]
    return kept if not points or kept[-1] is points[-1] else [*kept[: POINTS - 1], points[-1]]


def _stage(numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _cut(value[:SAMPLES]) if name == "samples" and isinstance(value, list) else _rounded(value)
        for name, value in numbers.items()
    }


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > CHARACTERS:
        return value[: CHARACTERS - 1] + "…"
    if isinstance(value, list):
        return [_cut(one) for one in value]
    return {name: _cut(one) for name, one in value.items()} if isinstance(value, dict) else value


def _rounded(value: Any, *, listed: bool = False) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if listed else value
    if isinstance(value, list | tuple):
        return [_rounded(one, listed=True) for one in value]
    return {name: _rounded(one, listed=listed) for name, one in value.items()} if isinstance(value, dict) else value
