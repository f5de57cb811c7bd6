"""Symbolic dimensions of `jax.export`: sizes that are unknown when a program is traced."""

from __future__ import annotations

from typing import Any

import jax
from jax import export


def symbolic(*sizes: Any) -> bool:
    """Whether one of the sizes is symbolic, so that comparisons with it may be undecidable."""
    return any(export.is_symbolic_dim(size) for size in sizes)


def expect_numbers(what: str, **axes: Any) -> None:
    """Raises ValueError naming the first axis with a symbolic size; `what` needs numbers to split or count by."""
    for axis, size in axes.items():
        if symbolic(size):
            raise ValueError(f"{what}: axis {axis}: expected a number, got the symbolic size {size}")


def may_exceed(size: Any, bound: int) -> bool:
    """Whether a size is or may be above the bound. A symbolic size may be, unless a constraint excludes it."""
    try:
        return bool(size > bound)
    except jax.errors.InconclusiveDimensionOperation:
        return True
