"""Traces functions to jaxprs, removes dead code, and finds the jaxprs inside an equation.

The names of parameters differ between primitives (`jaxpr`, `call_jaxpr`, `branches`), so inner jaxprs are found by
their type. Callers treat loops, branches and `shard_map` by name; every other primitive runs its inner jaxpr once.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters import partial_eval


def trace(function: Callable[..., Any], *arguments: Any) -> ClosedJaxpr:
    """The jaxpr of `function` without dead code. Only shapes and dtypes of the arguments are read."""
    closed = jax.make_jaxpr(function)(*arguments)
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts)


def opened(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """The jaxpr itself, without the constants of a closed jaxpr."""
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def without_dead_code(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """Removes dead code from an inner jaxpr that JAX's own pass does not enter, such as the body of a while loop."""
    jaxpr = opened(program)
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]


def inner_programs(equation: Any) -> list[Jaxpr]:
    """Every jaxpr among the parameters of an equation."""
    found: list[Jaxpr] = []
    for value in equation.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, (Jaxpr, ClosedJaxpr)):
                found.append(opened(item))
    return found


def scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
    """(constants, carried): how many inputs of a scan are constants, and how many after them are the carry.

    JAX 0.10 stores two numbers, JAX 0.12 a tree of three parts.
    """
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = (len(list(part)) for part in params["ft_in"].unpack())
    return constants, carried


def shards(equation: Any) -> int:
    """The number of devices that run the body of a `shard_map`: the product of the mesh axes that it is mapped over."""
    manual = equation.params.get("newly_manual_axes", equation.params.get("manual_axes"))
    sizes = dict(equation.params["mesh"].shape)
    return math.prod(size for name, size in sizes.items() if manual is None or name in manual)
