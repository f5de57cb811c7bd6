"""Forward mode for functions with a hand-written reverse-mode gradient.

JAX does not support `jvp` and `linearize` for `jax.custom_vjp` functions. `both_modes` adds them. The tangent is that
of the same function written in plain JAX operations, and the transpose of the tangent is the hand-written gradient.
`jax.grad` therefore runs the same program as before, and `jax.jvp`, `jax.linearize`, `jax.jacfwd` and `jax.hessian`
work too.

The tangent is one primitive, `linear`, because only a primitive can define its own transpose. Its derivative is that of
the plain operations. The derivative of its transpose is that of the operations of the hand-written gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive, unmapped_aval
from jax.interpreters import ad, batching, mlir


def both_modes(fast: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Makes `fast(*arrays)` differentiable in forward mode as well as in reverse mode.

    `fast` has a hand-written reverse-mode gradient (`jax.custom_vjp`). `plain` computes the same result with operations
    that JAX can differentiate in forward mode. Arguments and results are pytrees of arrays. Integers and keys have no
    tangents.

    >>> fast = jax.custom_vjp(jnp.sin)
    >>> fast.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    >>> bool(jax.jvp(both_modes(fast, jnp.sin), (1.0,), (1.0,))[1] == jnp.cos(1.0))
    True
    """

    @jax.custom_jvp
    def function(*arguments: Any) -> Any:
        return fast(*arguments)

    def derivative(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        leaves, tree = jax.tree.flatten(primals)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        moving = [place for place, leaf in enumerate(leaves) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)]
        result_trees = []

        def of_moving(some: Callable[..., Any], leaves: Sequence[Any]) -> Callable[..., list[Any]]:
            def flat(*moved: Any) -> list[Any]:
                every = list(leaves)
                for place, leaf in zip(moving, moved, strict=True):
                    every[place] = leaf
                results, result_tree = jax.tree.flatten(some(*jax.tree.unflatten(tree, every)))
                result_trees.append(result_tree)
                return results

            return flat

        moved = [leaves[place] for place in moving]
        outputs, pull = jax.vjp(of_moving(fast, leaves), *moved)
        kept, kept_tree = jax.tree.flatten(pull)

        types = [jax.typeof(output) for output in outputs]
        smooth = [jnp.issubdtype(one.dtype, jnp.inexact) for one in types]

        def with_integers(some: Sequence[Any]) -> list[Any]:
            """Adds the float0 zeros that are the tangents of integers and keys to those of the floating results."""
            rest = iter(some)
            return [
                next(rest) if floats else np.zeros(one.shape, jax.dtypes.float0)
                for one, floats in zip(types, smooth, strict=True)
            ]

        def tangent(residuals: Sequence[Any], dots: Sequence[Any]) -> list[Any]:
            given = residuals[: len(leaves)]
            results = jax.jvp(of_moving(plain, given), tuple(given[place] for place in moving), tuple(dots))[1]
            return [result for result, floats in zip(results, smooth, strict=True) if floats]

        def transpose(residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            return list(jax.tree.unflatten(kept_tree, residuals[len(leaves) :])(with_integers(cotangents)))

        dots = jax.tree.leaves(tangents)
        assert len(dots) == len(leaves)
        moved_dots = [dots[place] for place in moving]
        like = [output for output, floats in zip(outputs, smooth, strict=True) if floats]
        results = with_integers(linear(tangent, transpose, [*leaves, *kept], moved_dots, like))
        return jax.tree.unflatten(result_trees[0], outputs), jax.tree.unflatten(result_trees[0], results)

    function.defjvp(derivative)
    return function


def linear(
    tangent: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
    transpose: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
    residuals: Sequence[Any],
    inputs: Sequence[Any],
    like: Sequence[Any],
) -> list[Any]:
    """Computes tangent(residuals, inputs), which is linear in the inputs; its transpose is `transpose`.

    The transpose is called as transpose(residuals, cotangents). `like` holds arrays with the types of the results, so
    that `tangent` is traced only in forward mode.
    """
    types = tuple(jax.typeof(array) for array in like)
    return linear_p.bind(
        *residuals, *inputs, tangent=tangent, transpose=transpose, count=len(residuals), types=types
    )  # fmt: skip


linear_p = Primitive("linear_with_transpose")
linear_p.multiple_results = True


def _compute(*arrays: Any, tangent: Any, transpose: Any, count: int, types: Any) -> list[Any]:
    return list(tangent(list(arrays[:count]), list(arrays[count:])))


def _jvp(primals: Any, tangents: Any, *, count: int, **how: Any) -> tuple[list[Any], list[Any]]:
    results = linear_p.bind(*primals, count=count, **how)
    dots = [ad.instantiate_zeros(dot) for dot in tangents]
    if all(isinstance(dot, ad.Zero) for dot in tangents[:count]):
        return results, linear_p.bind(*primals[:count], *dots[count:], count=count, **how)
    floating = [jnp.issubdtype(jnp.result_type(primal), jnp.inexact) for primal in primals]

    def moved(*some: Any) -> list[Any]:
        rest = iter(some)
        arrays = [next(rest) if moves else primal for moves, primal in zip(floating, primals, strict=True)]
        return _compute(*arrays, count=count, **how)

    pick = lambda arrays: tuple(array for array, moves in zip(arrays, floating, strict=True) if moves)
    return results, jax.jvp(moved, pick(primals), pick(dots))[1]


def _transpose(cotangents: Any, *arrays: Any, transpose: Any, count: int, **how: Any) -> list[Any]:
    cotangents = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    found = transpose(list(arrays[:count]), cotangents)
    found = [g if ad.is_undefined_primal(x) else None for g, x in zip(found, arrays[count:], strict=True)]
    return [None] * count + found


def _batch(
    axis: Any, arrays: Any, axes: Any, *, tangent: Any, transpose: Any, count: int, types: Any
) -> tuple[list[Any], Any]:
    """Maps all inputs over the axis, so that their cotangents have it. Residuals without the axis are not mapped.

    The axis keeps its name for collective operations in the function.
    """
    size, name = axis.size, axis.name if isinstance(axis.name, str) else None
    if name is None and all(place is None for place in axes):
        results = linear_p.bind(*arrays, tangent=tangent, transpose=transpose, count=count, types=types)
        return results, [None] * len(results)
    over_axis = partial(jax.vmap, axis_name=name, axis_size=size, spmd_axis_name=axis.spmd_name)
    inputs = [batching.bdim_at_front(x, axis, size) for x, axis in zip(arrays[count:], axes[count:], strict=True)]
    over = list(axes[:count])
    results = linear_p.bind(
        *arrays[:count],
        *inputs,
        tangent=over_axis(tangent, (over, 0)),
        transpose=over_axis(transpose, (over, 0)),
        count=count,
        types=tuple(unmapped_aval(size, 0, one) for one in types),
    )
    return results, [0] * len(results)


linear_p.def_impl(_compute)
linear_p.def_abstract_eval(lambda *_, types, **__: types)
ad.primitive_jvps[linear_p] = _jvp
ad.primitive_transposes[linear_p] = _transpose
batching.fancy_primitive_batchers[linear_p] = _batch
mlir.register_lowering(linear_p, mlir.lower_fun(_compute, multiple_results=True))
