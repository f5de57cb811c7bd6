"""A scan over time that computes the gradients of weights after the backward loop, each as one product over all steps.

The gradient of `jax.lax.scan` adds x_t^T d_t to the gradient of a weight at every step. This takes T small products,
and reads and writes the whole weight T times. Here x_t and d_t of all steps are kept and multiplied once, dW = X^T D.
The gradients of scanned inputs are also one product, dX = D W^T. Only the order of summation differs.

The transformation applies to the program of the body, so that it works for any body: a cell, or the whole step of a
decoder with attention (whose values are such a weight for each example). For `y = x W` with W from outside the loop, y
passes through a tap. The gradient of the tap, d_t, is an output of the backward loop, which does not differentiate with
respect to W. Values that do not depend on the step (such as a cast or slice of a weight) are computed once, before the
loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import Literal, Var
from jaxtyping import Array, PyTree

from attention_research.kernels.derivatives import both_modes
from attention_research.kernels.recurrent.late_products import Loop, gradient_of, read_loop, results_of

#: Operations that are recomputed instead of kept. For example, the derivative s (1 - s) of a gate is computed from s.
CHEAP = frozenset("add add_any broadcast_in_dim convert_element_type integer_pow mul neg select_n square sub".split())


def recurrence(
    body: Callable[[Any, Any], tuple[Any, Any]], carry: PyTree, xs: PyTree, *, reverse: bool = False
) -> tuple[PyTree, PyTree]:
    """The same as `jax.lax.scan(body, carry, xs, reverse=reverse)`, including derivatives of every order and mode.

    Forward mode is that of `lax.scan`. Inside a `shard_map` that tracks varying mesh axes, and for a carry that is a
    Python number (whose dtype the body decides), it is `lax.scan` itself.

    >>> final, sums = recurrence(lambda carry, x: (carry + x, carry + x), jnp.array(0.0), jnp.array([1.0, 2.0, 3.0]))
    >>> final.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    carry = jax.tree.map(jnp.asarray, carry)
    weak = any(jax.typeof(leaf).weak_type for leaf in jax.tree.leaves(carry))
    if weak or any(jax.typeof(leaf).manual_axis_type.varying for leaf in jax.tree.leaves((carry, xs))):
        return lax.scan(body, carry, xs, reverse=reverse)
    first, carry_tree = jax.tree.flatten(carry)
    inputs, xs_tree = jax.tree.flatten(xs)

    def flat(*leaves: Array) -> list[Array]:
        carry, x = leaves[: len(first)], leaves[len(first) :]
        after, y = body(jax.tree.unflatten(carry_tree, carry), jax.tree.unflatten(xs_tree, x))
        after_tree: Any = jax.tree.structure(after)
        if after_tree != carry_tree:
            raise TypeError(f"recurrence: the body takes the carry {carry_tree} and returns {after_tree}")
        ys_tree.append(jax.tree.structure(y))
        return [*jax.tree.leaves(after), *jax.tree.leaves(y)]

    ys_tree: list[Any] = []
    one_step = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in inputs]
    program = jax.make_jaxpr(flat)(*(jax.ShapeDtypeStruct(c.shape, c.dtype) for c in first), *one_step)
    loop, weights = read_loop(program, len(first), reverse)
    last, ys = _scan(loop)(weights, first, inputs)
    return jax.tree.unflatten(carry_tree, last), jax.tree.unflatten(ys_tree[0], ys)


def _scan(loop: Loop) -> Callable[..., Any]:
    """The function (weights, first carry, xs) -> (last carry, ys), with the gradient of this module."""

    def plain(weights: list[Array], first: list[Array], xs: list[Array]) -> Any:
        return _run(loop, weights, first, xs)[0]

    def forward(weights: list[Array], first: list[Array], xs: list[Array]) -> tuple[Any, Any]:
        own_weights, own_xs, taps = loop.ordinary(loop.weights), loop.ordinary(loop.xs), loop.taps()
        length = len(xs[0])
        zeros = [jnp.zeros((length, *v.aval.shape), v.aval.dtype) for v in taps.values()]
        held = {v: x for names, given in ((loop.weights, weights), (loop.xs, xs))
                for v, x in zip(names, given, strict=True) if v in loop.held(names)}  # fmt: skip

        def differentiated(some_weights: list[Array], first: list[Array], some_xs: list[Array], zeros: Any) -> Any:
            every_weight = _with(loop.weights, weights, own_weights, some_weights)
            return _run(loop, every_weight, first, _with(loop.xs, xs, own_xs, some_xs), held, zeros)

        pick = lambda variables, values, own: [values[variables.index(v)] for v in own]
        given = pick(loop.weights, weights, own_weights), first, pick(loop.xs, xs, own_xs), zeros
        result, pull, kept = jax.vjp(differentiated, *given, has_aux=True)
        return result, (pull, kept, weights, xs)

    def backward(residuals: Any, cotangent: Any) -> tuple[list[Any], list[Any], list[Any]]:
        pull, kept, weights, xs = residuals
        weight_gradients, first_gradient, x_gradients, tapped = pull(cotangent)
        total: dict[Any, Any] = dict(zip(loop.ordinary(loop.weights), weight_gradients, strict=True))
        total.update(zip(loop.ordinary(loop.xs), x_gradients, strict=True))
        known = dict(zip(loop.weights, weights, strict=True))
        steps = {**dict(zip(loop.xs, xs, strict=True)), **dict(zip(loop.kept(), kept, strict=True))}
        at_tap = dict(zip(loop.taps(), tapped, strict=True))
        for (number, place), tap in loop.late.items():
            variable = loop.operations[number].invars[place]
            gradient = gradient_of(loop.operations[number], place, known, steps, at_tap[tap])
            total[variable] = total[variable] + gradient if variable in total else gradient
        return [total.get(v) for v in loop.weights], first_gradient, [total.get(v) for v in loop.xs]

    whole = jax.custom_vjp(plain)
    whole.defvjp(forward, backward)
    return both_modes(whole, plain)


def _run(
    loop: Loop,
    weights: list[Array],
    first: list[Array],
    xs: list[Array],
    held: dict[Any, Array] | None = None,
    zeros: list[Array] | None = None,
) -> Any:
    """Runs the forward loop. Returns ((last carry, ys), the values that are kept of every step).

    With `held`, late products read the values of `held`, with respect to which this run is not differentiated, and
    their results pass through the taps `zeros`. The values equal those of `weights` and `xs`, so that derivatives of
    the gradient are correct.
    """
    taps, keep = loop.taps(), loop.kept()
    held = held or {}
    moving = [v for v in loop.xs if v in held]

    def step(carry: list[Array], inputs: tuple[list[Array], list[Array], list[Array] | None]) -> tuple[Any, Any]:
        x, held_x, zeros = inputs
        values = dict(zip((*loop.weights, *loop.carry, *loop.xs), (*weights, *carry, *x), strict=True))
        fixed = {**held, **dict(zip(moving, held_x, strict=True))}
        zero = dict(zip(taps, zeros or [], strict=zeros is not None))
        for number, operation in enumerate(loop.operations):
            places = enumerate(operation.invars) if zeros is not None else ()
            results = results_of(operation, values, {p: fixed[v] for p, v in places if (number, p) in loop.late})
            if number in zero:
                results = [_tap(results[0], zero[number])]
            values.update(zip(operation.outvars, results, strict=True))
        results = [v.val if isinstance(v, Literal) else values[v] for v in loop.results]
        return results[: len(carry)], (results[len(carry) :], [values[v] for v in keep] if zeros is not None else None)

    if zeros is not None:
        step = jax.checkpoint(step, prevent_cse=False, policy=_saved)
    last, (ys, kept) = lax.scan(step, first, (xs, [held[v] for v in moving], zeros), reverse=loop.reverse)
    return (last, ys), kept


def _saved(primitive: Any, *_: Any, **__: Any) -> bool:
    """Whether the backward loop reads a saved result instead of recomputing it: all but cheap operations are saved."""
    return primitive.name not in CHEAP


@jax.custom_jvp
def _tap(y: Array, zero: Array) -> Array:
    """Returns y, as y + zero for an array `zero` of zeros, which is not read."""
    return y


def _of_tap(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    moving = [t for t in tangents if not isinstance(t, SymbolicZero)]
    return primals[0], sum(moving[1:], start=moving[0])


_tap.defjvp(_of_tap, symbolic_zeros=True)


def _with(variables: list[Var], values: list[Array], some: list[Var], others: list[Array]) -> list[Array]:
    """`values`, with the values of the variables `some` replaced by `others`."""
    replaced = dict(zip(some, others, strict=True))
    return [replaced.get(variable, value) for variable, value in zip(variables, values, strict=True)]
