"""Operations as Mesh TensorFlow counts them: its `einsum_unique`, which Narang et al. 2021 (arXiv 2102.11972) print.

It counts the multiplications of two arrays:

* a multiply-add of a matrix product is one operation, and so is a product of two numbers element by element;
* a table that is read is a matrix product with one-hot rows: n reads of [V D] are n V D operations, and a choice by
  equality with an index is one for each number that is chosen from; a running sum is a product with a triangle;
* convolutions proper have a counter of their own there and are not counted, nor are products with a constant;
* shapes decide, not masks: causal attention counts in full.

T5 logs this of a whole training step, and the paper prints a third of it. Backward, each of these is two products, and
a function of one argument (exp, relu, square) or a quotient is one: a third of a step is `forward + functions / 3`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal, Var

from attention_research.accounting import programs

#: Primitives whose derivative is a product with an array of their size.
FUNCTIONS = frozenset(
    ("div", "erf", "exp", "integer_pow", "log", "log1p", "logistic", "max", "min", "rsqrt", "sqrt", "square", "tanh")
)


class Operations(NamedTuple):
    """Of one forward pass: `products` (of matrices, look-ups, running sums), `elementwise` products, and the numbers
    that go through `functions`, which count in the backward pass alone."""

    products: int = 0
    elementwise: int = 0
    functions: int = 0

    @property
    def forward(self) -> int:
        """Of the forward pass."""
        return self.products + self.elementwise

    @property
    def third_of_training(self) -> float:
        """A third of what is logged of a training step."""
        return self.forward + self.functions / 3

    def times(self, repeats: int) -> Operations:
        """Of as many passes."""
        return Operations(*(repeats * count for count in self))


def count_operations(function: Callable[..., Any], *arguments: Any) -> Operations:
    """Counts one call of `function` on arguments of which only shapes and dtypes are read; nothing is allocated.

    Raises NotImplementedError for a loop of unknown length that holds products.
    """
    return _count(programs.trace(function, *arguments).jaxpr)


def _count(jaxpr: Jaxpr, equalities: Iterable[Var] = ()) -> Operations:
    known = {*equalities, *(equation.outvars[0] for equation in jaxpr.eqns if equation.primitive.name == "eq")}
    return _sum(_equation(equation, known) for equation in jaxpr.eqns)


def _sum(counts: Any) -> Operations:
    return Operations(*(sum(column) for column in zip(Operations(), *counts, strict=True)))


def _equation(equation: Any, equalities: set[Var]) -> Operations:
    name = equation.primitive.name
    if name == "dot_general":
        return Operations(products=_product(equation))
    if name == "gather":
        return Operations(products=_one_hot(equation))
    if name == "cumsum":
        shape = equation.outvars[0].aval.shape
        return Operations(products=math.prod(shape) * shape[equation.params["axis"]])
    if name == "select_n" and equation.invars[0] in equalities or name == "mul" and _of_arrays(equation):
        return Operations(elementwise=_floats(equation))
    if name in FUNCTIONS:
        return Operations(functions=_floats(equation))
    inner = [
        _count(
            program,
            [
                here
                for here, given in zip(program.invars, equation.invars, strict=False)
                if not isinstance(given, Literal) and given in equalities
            ],
        )
        for program in programs.inner_programs(equation)
    ]
    if name == "scan":
        return _sum(inner).times(equation.params["length"])
    if name == "cond":
        return max(inner)
    if name == "while" and any(count.products for count in inner):
        raise NotImplementedError("while: a loop of unknown length with products")
    return _sum(inner)


def _of_arrays(equation: Any) -> bool:
    return not any(isinstance(variable, Literal) for variable in equation.invars)


def _floats(equation: Any) -> int:
    """How many real numbers come out."""
    out = equation.outvars[0].aval
    return math.prod(out.shape) if jnp.issubdtype(out.dtype, jnp.floating) else 0


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
