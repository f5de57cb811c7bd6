"""Finds the gradient products of a loop body that can be computed after the loop, and computes them (`recurrence`)."""

from __future__ import annotations

import collections
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn, Literal, Var
from jaxtyping import Array

#: A `JaxprEqn`. JAX's annotations do not include the shapes and dtypes of its variables, so that it is typed as Any.
Operation = Any
#: A use of a variable as an argument: (number of the operation, number of the argument).
Use = tuple[int, int]


class Loop(NamedTuple):
    """One step of a loop: its operations, their variables, and the uses whose gradients are computed after the loop.

    `late` maps uses of a weight or of a scanned input, whose gradient is computed after the loop, to the number of the
    operation whose result's gradient they need (the tap).
    """

    operations: list[JaxprEqn]
    weights: list[Var]
    carry: list[Var]
    xs: list[Var]
    results: list[Any]
    late: dict[Use, int]
    reverse: bool

    def taps(self) -> dict[int, Any]:
        """Maps the number of each tap to its result, whose gradient is kept."""
        return {number: self.operations[number].outvars[0] for number in sorted(set(self.late.values()))}

    def kept(self) -> list[Var]:
        """The variables of each step that late products read."""
        found: dict[Any, None] = {}
        for number, place in self.late:
            operation = self.operations[number]
            other = operation.invars[1 - place]
            if operation.primitive.name == "dot_general" and other not in self.weights and other not in self.xs:
                found[other] = None
        return list(found)

    def held(self, variables: list[Var]) -> list[Var]:
        """The variables among `variables` that have a late use."""
        read = {self.operations[number].invars[place] for number, place in self.late}
        return [v for v in variables if v in read]

    def ordinary(self, variables: list[Var]) -> list[Var]:
        """The variables among `variables` whose gradient the loop itself must compute."""
        used = {
            variable
            for number, operation in enumerate(self.operations)
            for place, variable in enumerate(operation.invars)
            if not isinstance(variable, Literal) and (number, place) not in self.late
        }
        used |= {variable for variable in self.results if not isinstance(variable, Literal)}
        return [v for v in variables if v in used and _floating(v)]


def read_loop(program: Any, carried: int, reverse: bool) -> tuple[Loop, list[Array]]:
    """Returns (the loop, the values of its weights).

    Weights are values that the body closes over, and values that are computed only from these.
    """
    jaxpr = program.jaxpr
    outside: dict[Var, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    operations: list[JaxprEqn] = []
    for operation in jaxpr.eqns:
        read = [v for v in operation.invars if not isinstance(v, Literal)]
        fixed = read and all(v in outside for v in read) and not operation.effects
        if fixed and sum(_size(v) for v in operation.outvars) <= sum(map(_size, read)):
            outside.update(zip(operation.outvars, results_of(operation, outside), strict=True))
        else:
            operations.append(operation)
    needed = {v for o in operations for v in o.invars if not isinstance(v, Literal)}
    needed |= {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    weights = [v for v in outside if v in needed]
    carry, xs = jaxpr.invars[:carried], jaxpr.invars[carried:]
    late = _late(operations, set(weights), set(xs), jaxpr.outvars)
    return Loop(operations, weights, carry, xs, jaxpr.outvars, late, reverse), [outside[v] for v in weights]


def _late(operations: list[Operation], weights: set[Var], xs: set[Var], results: list[Any]) -> dict[Use, int]:
    """Maps each late use to the operation whose result has the gradient that it needs.

    This is the product itself or, if its result is only used in sums, the last such sum. The products of an LSTM's
    input and state and their bias then share one tap.
    """
    users: dict[Any, list[int]] = collections.defaultdict(list)
    for number, operation in enumerate(operations):
        for variable in operation.invars:
            if not isinstance(variable, Literal):
                users[variable].append(number)
    for variable in results:
        if not isinstance(variable, Literal):
            users[variable].append(-1)
    found: dict[Use, int] = {}
    for number, operation in enumerate(operations):
        if operation.primitive.name != "dot_general":
            continue
        known = [place for place, v in enumerate(operation.invars) if _among(v, weights) and _floating(v)]
        if len(known) != 1:
            continue
        tap, sums = number, []
        while True:
            result = operations[tap].outvars[0]
            user = users[result][0] if len(users[result]) == 1 else -1
            if user < 0 or operations[user].primitive.name != "add":
                break
            if operations[user].outvars[0].aval.shape != result.aval.shape:
                break
            tap = user
            sums.append(user)
        found[number, known[0]] = tap
        if _among(operation.invars[1 - known[0]], xs):
            found[number, 1 - known[0]] = tap
        for user in sums:
            rank = operations[user].outvars[0].aval.ndim
            addends = [p for p, v in enumerate(operations[user].invars) if _among(v, weights) and v.aval.ndim == rank]
            found.update({(user, place): tap for place in addends})
    return found


def results_of(
    operation: JaxprEqn, values: dict[Var, Any], held: Mapping[int, Any] = MappingProxyType({})
) -> list[Any]:
    """The results of an operation. `held` (argument number -> value) replaces some of its arguments."""
    arguments = [v.val if isinstance(v, Literal) else values[v] for v in operation.invars]
    arguments = [held.get(place, a) for place, a in enumerate(arguments)]
    results = operation.primitive.bind(*arguments, **operation.primitive.get_bind_params(operation.params))
    return list(results) if operation.primitive.multiple_results else [results]


def gradient_of(
    operation: Operation, place: int, known: dict[Var, Any], steps: dict[Var, Any], gradient: Array
) -> Array:
    """The gradient of an argument for all steps [T ..] at once: per step for a scanned input, summed for a weight."""
    variable, other = operation.invars[place], operation.invars[1 - place]
    if operation.primitive.name == "add":
        missing = [axis for axis, n in enumerate(variable.aval.shape) if n != gradient.shape[1:][axis]]
        return jnp.sum(gradient, axis=(0, *(axis + 1 for axis in missing))).reshape(variable.aval.shape)
    weight, stacked = (variable, other) if variable in known else (other, variable)
    axis = _plain(operation, weight, gradient)
    if axis is None:
        in_order = lambda w, x: (w, x) if operation.invars[0] is weight else (x, w)
        product = jax.vmap(lambda w, x: operation.primitive.bind(*in_order(w, x), **operation.params), (None, 0))
        _, pull = jax.vjp(product, known[weight], steps[stacked])
        return pull(gradient)[0 if variable is weight else 1]
    rows = lambda a: a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    if variable is not weight:
        back = lax.dot_general(rows(gradient), known[weight], (((1,), (1 - axis,)), ((), ())))
        return back.reshape(steps[stacked].shape)
    pair = (steps[stacked], gradient) if axis == 0 else (gradient, steps[stacked])
    return lax.dot_general(rows(pair[0]), rows(pair[1]), (((0,), (0,)), ((), ())))


def _plain(operation: Operation, weight: Any, gradient: Array) -> int | None:
    """The contracted axis of W if the operation is x [.. I] times W [I O] or [O I], with gradients by 2-D products."""
    ((left, right), batch), other = operation.params["dimension_numbers"], operation.invars[0]
    last = other is not weight and left == (other.aval.ndim - 1,)
    same = weight.aval.dtype == other.aval.dtype == gradient.dtype
    return right[0] if last and same and batch == ((), ()) and weight.aval.ndim == 2 else None


def _among(variable: Any, some: set[Var]) -> bool:
    return not isinstance(variable, Literal) and variable in some


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _floating(variable: Any) -> bool:
    return jnp.issubdtype(variable.aval.dtype, jnp.floating)
