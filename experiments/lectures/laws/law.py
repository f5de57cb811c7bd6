"""Statements about attention that are exactly true or false. Each is a function that draws and measures an instance.

A law returns named numbers in float64. The differences in "zero" are 0 if the statement is true. Those in "other" are
controls that must not be 0, for instance the same difference without the condition that the statement names. One
instance is enough to break a law.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

#: The bound on rounding errors in float64, for sums over some hundred numbers of order one.
ROUNDING = 1e-11
#: A difference that must not be 0 must be larger than this.
CLEAR = 1e-3
#: The modules in this folder that define laws. Each has a dict ``LAWS`` from claim to law.
MODULES = ("attention", "layers", "masks", "selection", "recurrence", "gating", "convolution")


class Found(NamedTuple):
    """The numbers of one instance by name: "zero", "other", and "said" for numbers that are only reported."""

    zero: Mapping[str, float]
    other: Mapping[str, float] = {}
    said: Mapping[str, float] = {}


Law = Callable[[np.random.Generator], Found]


def gap(one: Any, other: Any) -> float:
    """The largest absolute difference. It is infinite if the shapes differ.

    >>> gap([1.0, 2.0], [1.0, 2.5]), gap([1.0], [[1.0]])
    (0.5, inf)
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(np.abs(one - other).max(initial=0.0)) if one.shape == other.shape else float("inf")


def largest(x: Any) -> float:
    """The largest absolute value."""
    return float(np.abs(np.asarray(x, np.float64)).max(initial=0.0))


def holds(zeros: Mapping[str, float], others: Mapping[str, float]) -> bool:
    """Whether all differences that should be 0 are rounding errors, and all that should not be 0 are not."""
    return max(zeros.values(), default=0.0) <= ROUNDING and all(value > CLEAR for value in others.values())


def law_of(claim: str) -> Law:
    """Returns the law of a claim. Raises KeyError if the claim has no law."""
    for name in MODULES:
        laws = importlib.import_module(f".{name}", __package__).LAWS
        if claim in laws:
            return laws[claim]
    raise KeyError(f"{claim}: no law of {', '.join(MODULES)}")


def measure_law(*, claim: str, draws: int, seed: int, **_: Any) -> dict[str, Any]:
    """Measures `draws` instances of a claim's law.

    "zero" is the largest of all differences that should be 0. "other" is the smallest difference that should not be 0
    (None if the law has none). "holds" is 1 or 0. "zeros", "others" and "said" give the values by name; "said" are
    medians.
    """
    law = law_of(claim)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # indices are int32 in the layers, int64 here
        found = [law(np.random.default_rng([seed, number])) for number in range(draws)]
    zeros = {name: max(one.zero[name] for one in found) for name in found[0].zero}
    others = {name: min(one.other[name] for one in found) for name in found[0].other}
    said = {name: float(np.median([one.said[name] for one in found])) for name in found[0].said}
    zero, other = max(zeros.values()), min(others.values(), default=None)
    held = float(holds(zeros, others))
    return {"zero": zero, "other": other, "holds": held, "zeros": zeros, "others": others, "said": said}
