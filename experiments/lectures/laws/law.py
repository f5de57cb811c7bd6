"""Statements about attention that are exactly true or false, each as a function that draws an instance and measures it.

A law gives named numbers in float64: those of "zero" are differences that the statement says are none, those of
"other" are what has to differ where the statement would mean nothing otherwise (the same difference without the
condition that it names). A law is broken by one instance.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

#: Rounding in float64, of sums over some hundred numbers of order one.
ROUNDING = 1e-11
#: What has to differ differs by more than this.
CLEAR = 1e-3
#: The modules here whose LAWS have one for each claim.
MODULES = ("attention", "layers", "masks", "selection", "recurrence", "gating", "convolution")


class Found(NamedTuple):
    """One instance: "zero" and "other" by name, and numbers that are neither ("said")."""

    zero: Mapping[str, float]
    other: Mapping[str, float] = {}
    said: Mapping[str, float] = {}


Law = Callable[[np.random.Generator], Found]


def gap(one: Any, other: Any) -> float:
    """The largest absolute difference; infinite where shapes differ.

    >>> gap([1.0, 2.0], [1.0, 2.5]), gap([1.0], [[1.0]])
    (0.5, inf)
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(np.abs(one - other).max(initial=0.0)) if one.shape == other.shape else float("inf")


def largest(x: Any) -> float:
    """The largest absolute value."""
    return float(np.abs(np.asarray(x, np.float64)).max(initial=0.0))


def holds(zeros: Mapping[str, float], others: Mapping[str, float]) -> bool:
    """Whether what should be none is rounding, and what should differ does."""
    return max(zeros.values()) <= ROUNDING and all(value > CLEAR for value in others.values())


def law_of(claim: str) -> Law:
    """The law of a claim. Raises KeyError for one that has none."""
    for name in MODULES:
        laws = importlib.import_module(f".{name}", __package__).LAWS
        if claim in laws:
            return laws[claim]
    raise KeyError(f"{claim}: no law of {', '.join(MODULES)}")


def measure_law(*, claim: str, draws: int, seed: int, **_: Any) -> dict[str, Any]:
    """Of `draws` instances of a claim's law: "zero", the largest of all differences that should be none, "other", the
    smallest that should not (None without any), "holds", 1 or 0; "zeros", "others" and "said" the same by name."""
    law = law_of(claim)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # indices are int32 in the layers, int64 here
        found = [law(np.random.default_rng([seed, number])) for number in range(draws)]
    zeros = {name: max(one.zero[name] for one in found) for name in found[0].zero}
    others = {name: min(one.other[name] for one in found) for name in found[0].other}
    said = {name: float(np.median([one.said[name] for one in found])) for name in found[0].said}
    zero, other = max(zeros.values()), min(others.values(), default=None)
    held = float(holds(zeros, others))
    return {"zero": zero, "other": other, "holds": held, "zeros": zeros, "others": others, "said": said}
