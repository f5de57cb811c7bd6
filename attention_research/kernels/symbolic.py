"""Sizes that a program leaves open: the symbolic dimensions of `jax.export`."""

from __future__ import annotations

from typing import Any

import jax
from jax import export


def symbolic(*sizes: Any) -> bool:
    """Whether one of the sizes is symbolic: a comparison with it may have no answer."""
    return any(export.is_symbolic_dim(size) for size in sizes)


def expect_numbers(what: str, **axes: Any) -> None:
    """Raises ValueError naming the first axis whose size is symbolic, for `what` cuts or counts by that size."""
    for axis, size in axes.items():
        if symbolic(size):
            raise ValueError(f"{what}: axis {axis}: expected a number, got the symbolic size {size}")


def may_exceed(size: Any, bound: int) -> bool:
    """Whether a size is above the bound, or may be: a symbolic one without the constraint that it is not."""
    try:
        return bool(size > bound)
    except jax.errors.InconclusiveDimensionOperation:
        return True
