"""Operations as Mesh TensorFlow counts them: its `einsum_unique`, which Narang et al. 2021 (arXiv 2102.11972) print.

A multiply-add of a matrix product is one operation; a table that is read is a matrix product with one-hot rows, so that
n reads of [V D] are n V D operations. Convolutions proper have a counter of their own there and are not counted, and
shapes decide, not masks: causal attention counts in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jax.extend.core import Jaxpr

from attention_research.accounting import programs


def count_operations(function: Callable[..., Any], *arguments: Any) -> int:
    """Counts one call of `function` on arguments of which only shapes and dtypes are read; nothing is allocated.

    Raises NotImplementedError for a loop of unknown length that holds matrix products.
    """
    return _count(programs.trace(function, *arguments).jaxpr)


def _count(jaxpr: Jaxpr) -> int:
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation: Any) -> int:
    name = equation.primitive.name
    if name == "dot_general":
        return _product(equation)
    if name == "gather":
        return _one_hot(equation)
    inner = [_count(program) for program in programs.inner_programs(equation)]
    if name == "scan":
        return sum(inner) * equation.params["length"]
    if name == "cond":
        return max(inner)
    if name == "while" and any(inner):
        raise NotImplementedError("while: a loop of unknown length with matrix products")
    return sum(inner)


def _product(equation: Any) -> int:
    """Multiply-adds: every element of the result is a sum over the contracted axes."""
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)


def _one_hot(equation: Any) -> int:
    """Reads of whole rows of a table, as products with one-hot rows; single numbers and slices are not reads of one."""
    table, indices = (variable.aval.shape for variable in equation.invars[:2])
    collapsed = equation.params["dimension_numbers"].collapsed_slice_dims
    if len(table) != 2 or tuple(collapsed) != (0,) or equation.params["slice_sizes"][1] != table[1]:
        return 0
    return math.prod(indices[:-1]) * math.prod(table)
