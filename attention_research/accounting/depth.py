"""The longest chain of dependent matrix products in a program.

Vaswani et al. 2017, section 4 and Table 1, "sequential operations". With any number of processors, a recurrent layer
over T positions takes T products one after the other. A self-attention layer takes the same small number for any T. The
walk visits every iteration of a scan, so that independent iterations (`lax.map`) add no depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import Jaxpr, Literal, jaxpr_as_fun

from attention_research.accounting import programs
from attention_research.accounting.flops import count_flops

PRODUCTS = ("dot_general", "conv_general_dilated")


class Depth(NamedTuple):
    """Sequential and total work of a program.

    `chain` is the number of products on the longest path from an input to an output. `flops` counts the operations of
    all matrix products. `in_loops` counts those in loops whose iterations depend on the previous one.
    """

    chain: int
    flops: int
    in_loops: int

    @property
    def parallel_fraction(self) -> float:
        """The share of the operations of matrix products that is outside these loops."""
        return 1.0 - self.in_loops / self.flops if self.flops else 1.0


def measure_depth(function: Callable[..., Any], *arguments: Any) -> Depth:
    """The depth of one call of `function`. Only shapes and dtypes of the arguments are read; nothing is allocated.

    `cond` counts its deepest branch. `while` counts as one iteration.

    >>> measure_depth(lambda x: x @ x @ x, jnp.ones((4, 4)))
    Depth(chain=2, flops=256, in_loops=0)
    """
    program = programs.trace(function, *arguments).jaxpr
    chain = max(_depths(program, [0] * len(program.invars)), default=0)
    return Depth(chain, count_flops(function, *arguments, trips=1).matmul, _in_loops(program))


def _depths(jaxpr: Jaxpr, given: Sequence[int]) -> list[int]:
    """The depth of each output, from the depth of each input."""
    depth = dict(zip(jaxpr.invars, given, strict=True)) | dict.fromkeys(jaxpr.constvars, 0)
    of = lambda value: 0 if isinstance(value, Literal) else depth[value]
    for equation in jaxpr.eqns:
        depth.update(zip(equation.outvars, _equation(equation, [of(v) for v in equation.invars]), strict=True))
    return [of(value) for value in jaxpr.outvars]


def _equation(equation: Any, given: list[int]) -> list[int]:
    name, outputs = equation.primitive.name, len(equation.outvars)
    if name in PRODUCTS:
        return [max(given) + 1]
    if name == "scan":
        return _scan(equation, given)
    if name == "cond":
        branches = [_depths(programs.opened(one), given[1:]) for one in equation.params["branches"]]
        return [max(found) for found in zip(*branches, strict=True)]
    inner = programs.inner_programs(equation)
    if len(inner) == 1 and len(inner[0].invars) == len(given) and len(inner[0].outvars) == outputs:
        return _depths(inner[0], given)
    within = max((max(_depths(one, [0] * len(one.invars)), default=0) for one in inner), default=0)
    return [max(given, default=0) + within] * outputs


def _scan(equation: Any, given: list[int]) -> list[int]:
    """Walks over every iteration: the depth of the carry of one iteration is an input of the next."""
    constants, carried = programs.scan_sizes(equation.params)
    body = programs.opened(equation.params["jaxpr"])
    fixed, state, steps = given[:constants], given[constants : constants + carried], given[constants + carried :]
    stacked = [0] * (len(equation.outvars) - carried)
    for _ in range(equation.params["length"]):
        after = _depths(body, [*fixed, *state, *steps])
        state = after[:carried]
        stacked = [max(pair) for pair in zip(stacked, after[carried:], strict=True)]
    return [*state, *stacked]


def _in_loops(jaxpr: Jaxpr) -> int:
    """Operations of the products in loops whose iterations depend on the previous one."""
    total = 0
    for equation in jaxpr.eqns:
        inner = programs.inner_programs(equation)
        if equation.primitive.name == "scan" and _waits(equation):
            body = equation.params["jaxpr"]
            shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in body.jaxpr.invars]
            total += count_flops(jaxpr_as_fun(body), *shapes, trips=1).matmul * equation.params["length"]
        elif equation.primitive.name == "scan":
            total += sum(map(_in_loops, inner)) * equation.params["length"]
        else:
            total += (max if equation.primitive.name == "cond" else sum)(map(_in_loops, inner)) if inner else 0
    return total


def _waits(equation: Any) -> bool:
    """Whether the products of an iteration depend on those of the previous one: a second iteration adds depth."""
    constants, carried = programs.scan_sizes(equation.params)
    body = programs.opened(equation.params["jaxpr"])
    others = len(body.invars) - constants - carried
    state = [0] * carried
    for _ in range(2):
        before, state = state, _depths(body, [*[0] * constants, *state, *[0] * others])[:carried]
    return any(after > once for after, once in zip(state, before, strict=True))
