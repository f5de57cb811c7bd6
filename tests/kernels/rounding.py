"""A function in naive low precision: every operation in float32, every result rounded to bfloat16."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

from attention_research.accounting.programs import scan_sizes

CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr",
         "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}  # fmt: skip


def rounded(function):
    """Evaluates function(*arrays) from its jaxpr with every floating-point result rounded to bfloat16."""

    def run(*arguments):
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _evaluate(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return run


def _round(value):
    if jnp.issubdtype(jnp.result_type(value), jnp.floating):
        return jnp.asarray(value).astype(jnp.bfloat16).astype(jnp.result_type(value))
    return value


def _evaluate(jaxpr, consts, arguments):
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *map(_round, arguments)], strict=True))
    for equation in jaxpr.eqns:
        inputs = [v.val if isinstance(v, core.Literal) else values[v] for v in equation.invars]
        results = _apply(equation, inputs)
        values |= zip(equation.outvars, map(_round, results), strict=True)
    return [v.val if isinstance(v, core.Literal) else values[v] for v in jaxpr.outvars]


def _apply(equation, inputs):
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        inner = params[CALLS[name]]
        inner, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
        return _evaluate(inner, consts, inputs)
    if name == "scan":
        return _scan(params, inputs)
    results = equation.primitive.bind(*inputs, **params)
    return results if equation.primitive.multiple_results else [results]


def _scan(params, inputs):
    consts, carry = scan_sizes(params)
    closed = params["jaxpr"]

    def body(state, xs):
        results = _evaluate(closed.jaxpr, closed.consts, [*inputs[:consts], *state, *xs])
        results = list(map(_round, results))
        return results[:carry], results[carry:]

    state = list(map(_round, inputs[consts : consts + carry]))
    xs = inputs[consts + carry :]
    state, ys = lax.scan(body, state, xs, length=params["length"], reverse=params["reverse"])
    return [*state, *ys]
