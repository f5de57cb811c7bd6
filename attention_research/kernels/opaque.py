"""Higher derivatives for functions whose programs JAX cannot differentiate, such as Pallas and cuDNN kernels.

`opaque` keeps the hand-written gradient of such a function. The derivative of this gradient is that of the gradient of
the same function in plain JAX operations. Without it, a second derivative would differentiate the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def opaque(fast: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the hand-written gradient of `fast(*arrays)` differentiable, by the derivatives of `plain`.

    `fast` has a reverse-mode gradient (`jax.custom_vjp`). `plain` computes the same result. Arguments are pytrees of
    arrays; integers have no gradient. Results are floating. For forward mode, pass the result to `both_modes`.

    >>> fast = jax.custom_vjp(lambda x: jnp.sin(x))
    >>> fast.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jax.lax.stop_gradient(jnp.cos(x)),))
    >>> float(jax.grad(jax.grad(fast))(0.5)), round(float(jax.grad(jax.grad(opaque(fast, jnp.sin)))(0.5)), 4)
    (0.0, -0.4794)
    """

    def function(*arguments: Any) -> Any:
        given, tree = jax.tree.flatten(arguments)
        moving = [place for place, leaf in enumerate(given) if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)]
        pick = lambda leaves: [leaves[place] for place in moving]
        #: The structure of the gradient, and for each of its residuals the argument that it is, or None.
        traced: list[tuple[Any, list[int | None]]] = []

        def of_moving(some: Callable[..., Any], leaves: Sequence[Any]) -> Callable[..., Any]:
            def run(*moved: Any) -> Any:
                every = list(leaves)
                for place, leaf in zip(moving, moved, strict=True):
                    every[place] = leaf
                return some(*jax.tree.unflatten(tree, every))

            return run

        @jax.custom_jvp
        def saved(*leaves: Any) -> tuple[Any, list[Any]]:
            """The output, and the residuals that are not arguments."""
            output, pull = jax.vjp(of_moving(fast, leaves), *pick(leaves))
            residuals, pull_tree = jax.tree.flatten(pull)
            places = {id(leaf): place for place, leaf in enumerate(leaves)}
            sources = [places.get(id(residual)) for residual in residuals]
            traced.append((pull_tree, sources))
            return output, [x for x, source in zip(residuals, sources, strict=True) if source is None]

        @saved.defjvp
        def derivative_of_saved(leaves: Any, dots: Any) -> Any:
            output, kept = saved(*leaves)
            _, dot = jax.jvp(of_moving(plain, leaves), tuple(pick(leaves)), tuple(pick(dots)))
            return (output, kept), (dot, [_zero(x) for x in kept])

        @jax.custom_jvp
        def pulled(leaves: Any, kept: Any, cotangent: Any) -> list[Any]:
            """The hand-written gradient."""
            (pull_tree, sources), rest = traced[-1], iter(kept)
            residuals = [next(rest) if source is None else leaves[source] for source in sources]
            return list(jax.tree.unflatten(pull_tree, residuals)(cotangent))

        @pulled.defjvp
        def derivative_of_pulled(primals: Any, dots: Any) -> Any:
            leaves, _, cotangent = primals
            gradient = lambda moved, cotangent: list(jax.vjp(of_moving(plain, leaves), *moved)[1](cotangent))
            along = jax.jvp(gradient, (pick(leaves), cotangent), (pick(dots[0]), dots[2]))[1]
            return pulled(*primals), along

        @jax.custom_vjp
        def run(*leaves: Any) -> Any:
            return fast(*jax.tree.unflatten(tree, leaves))

        def forward(*leaves: Any) -> Any:
            output, kept = saved(*leaves)
            return output, (leaves, kept)

        def backward(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
            gradients: list[Any] = [None] * len(given)
            for place, gradient in zip(moving, pulled(*residuals, cotangent), strict=True):
                gradients[place] = gradient
            return tuple(gradients)

        run.defvjp(forward, backward)
        return run(*given)

    return function


def _zero(x: Any) -> Any:
    """The tangent 0 of a residual, whose derivative is part of that of the arguments."""
    return jnp.zeros_like(x) if jnp.issubdtype(x.dtype, jnp.inexact) else np.zeros(x.shape, jax.dtypes.float0)
