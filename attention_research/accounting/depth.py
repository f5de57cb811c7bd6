"""The longest chain of dependent matrix products in a program.

Vaswani et al. 2017, section 4 and Table 1, "sequential operations". With any number of processors, a recurrent layer
over T positions takes T products one after the other. A self-attention layer takes the same small number for any T. The
walk visits every iteration of a loop, so that independent iterations (`lax.map`) add no depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from attention_research.accounting import programs
from attention_research.accounting.flops import count_flops, trip_count

PRODUCTS = ("dot_general", "conv_general_dilated")
LOOPS = ("scan", "while")


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

    `cond` counts its deepest branch. `while` counts its iterations if the program states how many there are (see
    `count_flops`), else one. Its next iteration depends on its condition.

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
    if name in LOOPS:
        return _loop(equation, given)
    if name == "cond":
        branches = [_depths(programs.opened(one), given[1:]) for one in equation.params["branches"]]
        return [max(found) for found in zip(*branches, strict=True)]
    inner = programs.inner_programs(equation)
    if len(inner) == 1 and len(inner[0].invars) == len(given) and len(inner[0].outvars) == outputs:
        return _depths(inner[0], given)
    within = max((max(_depths(one, [0] * len(one.invars)), default=0) for one in inner), default=0)
    return [max(given, default=0) + within] * outputs


def _loop(equation: Any, given: list[int]) -> list[int]:
    """Walks over every iteration: the depth of the carry of one iteration is an input of the next."""
    state = given[_carry(equation)]
    stacked = [0] * (len(equation.outvars) - len(state))
    for _ in range(_iterations(equation)):
        state, rows = _iteration(equation, given, state)
        stacked = [max(pair) for pair in zip(stacked, rows, strict=True)]
    return [*state, *stacked]


def _iterations(equation: Any) -> int:
    """How often a loop runs; 1 if the program does not state it."""
    if equation.primitive.name == "scan":
        return equation.params["length"]
    stated = trip_count(equation)
    return 1 if stated is None else stated


def _carry(equation: Any) -> slice:
    """Which inputs of a loop are its carry."""
    if equation.primitive.name == "scan":
        constants, carried = programs.scan_sizes(equation.params)
        return slice(constants, constants + carried)
    return slice(equation.params["cond_nconsts"] + equation.params["body_nconsts"], len(equation.invars))


def _iteration(equation: Any, given: list[int], state: list[int]) -> tuple[list[int], list[int]]:
    """(depths of the carry after an iteration, of its other outputs), from those of all inputs and of the carry."""
    carry = _carry(equation)
    if equation.primitive.name == "scan":
        after = _depths(
            programs.opened(equation.params["jaxpr"]), [*given[: carry.start], *state, *given[carry.stop :]]
        )
        return after[: len(state)], after[len(state) :]
    tests = equation.params["cond_nconsts"]
    condition, body = (programs.opened(equation.params[part]) for part in ("cond_jaxpr", "body_jaxpr"))
    (known,) = _depths(condition, [*given[:tests], *state])
    return [max(known, one) for one in _depths(body, [*given[tests : carry.start], *state])], []


def _in_loops(jaxpr: Jaxpr) -> int:
    """Operations of the products in loops whose iterations depend on the previous one."""
    total = 0
    for equation in jaxpr.eqns:
        name, inner = equation.primitive.name, programs.inner_programs(equation)
        if name in LOOPS and _waits(equation):
            bodies = [part for part in equation.params.values() if isinstance(part, ClosedJaxpr)]
            total += sum(map(_products, bodies)) * _iterations(equation)
        elif name in LOOPS:
            total += sum(_in_loops(programs.without_dead_code(one)) for one in inner) * _iterations(equation)
        else:
            total += (max if name == "cond" else sum)(map(_in_loops, inner)) if inner else 0
    return total


def _products(program: ClosedJaxpr) -> int:
    """Operations of all products of a program."""
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.jaxpr.invars]
    return count_flops(jaxpr_as_fun(program), *shapes, trips=1).matmul


def _waits(equation: Any) -> bool:
    """Whether the products of an iteration depend on those of the previous one: a second iteration adds depth."""
    given = [0] * len(equation.invars)
    once, _ = _iteration(equation, given, given[_carry(equation)])
    twice, _ = _iteration(equation, given, once)
    return any(after > before for after, before in zip(twice, once, strict=True))
