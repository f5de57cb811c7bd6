"""Counts operations as Mesh TensorFlow does: its `einsum_unique`, the count in Narang et al. 2021 (arXiv 2102.11972).

It counts the multiplications of two arrays:

* A multiply-add of a matrix product is one operation, and so is each product of an elementwise multiplication.
* An embedding look-up is a matrix product with one-hot rows: n look-ups in a table [V D] are n V D operations.
  A selection by equality with an index is one operation for each output element. A cumulative sum is a product with a
  triangular matrix.
* Convolutions are not counted, because Mesh TensorFlow has a separate counter for them. Products with a constant are
  not counted.
* The count depends on shapes only, not on masks: causal attention counts in full.

T5 logs this count for a whole training step, and the paper prints a third of it. In the backward pass, each product
becomes two, and a division or a function of one argument (exp, relu, square) becomes one. A third of a step is
therefore `forward + functions / 3`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal, Var

from attention_research.accounting import programs

#: Primitives whose gradient multiplies by an array of their output's size.
FUNCTIONS = frozenset(
    ("div", "erf", "exp", "integer_pow", "log", "log1p", "logistic", "max", "min", "rsqrt", "sqrt", "square", "tanh")
)


class Operations(NamedTuple):
    """Operations of one forward pass.

    `products` counts matrix products, look-ups and cumulative sums. `elementwise` counts elementwise products.
    `functions` counts the elements that pass through `FUNCTIONS`, which cost an operation in the backward pass only.
    """

    products: int = 0
    elementwise: int = 0
    functions: int = 0

    @property
    def forward(self) -> int:
        """The operations of the forward pass."""
        return self.products + self.elementwise

    @property
    def third_of_training(self) -> float:
        """A third of the operations of a training step, as the paper prints it."""
        return self.forward + self.functions / 3

    def times(self, repeats: int) -> Operations:
        """The operations of `repeats` passes."""
        return Operations(*(repeats * count for count in self))


def count_operations(function: Callable[..., Any], *arguments: Any) -> Operations:
    """Counts one call of `function`. Only shapes and dtypes of the arguments are read; nothing is allocated.

    Raises NotImplementedError for a `while` loop with products, because its trip count is unknown.

    >>> count_operations(jnp.dot, jnp.ones((2, 3)), jnp.ones((3, 4)))
    Operations(products=24, elementwise=0, functions=0)
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
    """The number of floating point elements of the output."""
    out = equation.outvars[0].aval
    return math.prod(out.shape) if jnp.issubdtype(out.dtype, jnp.floating) else 0


def _product(equation: Any) -> int:
    """The multiply-adds of a matrix product: each output element is a sum over the contracted axes."""
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)


def _one_hot(equation: Any) -> int:
    """The multiply-adds of look-ups of whole rows of a table, as products with one-hot rows; 0 for other gathers."""
    table, indices = (variable.aval.shape for variable in equation.invars[:2])
    collapsed = equation.params["dimension_numbers"].collapsed_slice_dims
    if len(table) != 2 or tuple(collapsed) != (0,) or equation.params["slice_sizes"][1] != table[1]:
        return 0
    return math.prod(indices[:-1]) * math.prod(table)
