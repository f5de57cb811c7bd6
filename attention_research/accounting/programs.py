"""Programs as JAX traces them: traced from shapes, dead code removed, opened one inside the other.

Names of parameters differ between primitives (`jaxpr`, `call_jaxpr`, `branches`), so that inner programs are looked up
by type; only loops, branches and `shard_map` mean more than "runs once" and are told apart by name.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters import partial_eval


def trace(function: Callable[..., Any], *arguments: Any) -> ClosedJaxpr:
    """The program of `function` for arguments of which only shapes and dtypes are read; without what no output uses."""
    closed = jax.make_jaxpr(function)(*arguments)
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts)


def opened(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """The program itself, where a closed one also holds its constants."""
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def without_dead_code(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """Removes what no output uses from a body that JAX's own pass does not enter (a while loop's)."""
    jaxpr = opened(program)
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]


def inner_programs(equation: Any) -> list[Jaxpr]:
    """Every program among an equation's parameters."""
    found: list[Jaxpr] = []
    for value in equation.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, (Jaxpr, ClosedJaxpr)):
                found.append(opened(item))
    return found


def scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
    """(constants, carried) of a scan's parameters: so many of its inputs are the same in every turn, and so many after
    them go from one turn into the next. JAX 0.10 writes them as two numbers, 0.12 as a tree of three parts."""
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = (len(list(part)) for part in params["ft_in"].unpack())
    return constants, carried


def shards(equation: Any) -> int:
    """How many devices run a `shard_map`'s body: the sizes of the mesh axes that it is mapped over."""
    manual = equation.params.get("newly_manual_axes", equation.params.get("manual_axes"))
    sizes = dict(equation.params["mesh"].shape)
    return math.prod(size for name, size in sizes.items() if manual is None or name in manual)
