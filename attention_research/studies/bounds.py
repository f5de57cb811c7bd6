"""The size of a trial's result: curves, samples and lists of numbers are bounded where the result is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

#: Points of a curve, samples of an evaluation, characters of a sample's text.
POINTS, SAMPLES, CHARACTERS = 200, 8, 200
#: Significant digits of a number in a list: a point of a curve, a weight of a map. Numbers of their own keep all.
DIGITS = 6


def bounded(result: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's result with its curves thinned, its samples cut and the numbers in its lists rounded.

    What is bounded already stays as it is.
    """
    stages = {name: _stage(numbers) for name, numbers in result["stages"].items()}
    curves = {split: thinned(points) for split, points in result.get("curves", {}).items()}
    return {**result, "stages": stages, "curves": _rounded(curves)}


def thinned(points: list[Any]) -> list[Any]:
    """At most `POINTS` of a curve's points at equal distances, the first and the last among them."""
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
