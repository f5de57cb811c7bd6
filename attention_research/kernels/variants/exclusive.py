"""Exclusive self-attention (XSA), Zhai 2026 (arXiv 2603.09078): z_i = y_i - (y_i . v_i) v_i / |v_i|^2.

y_i is the output of a head, v_i its own value. The output of attention is made orthogonal to what the residual stream
has already at this position. A query that sees only itself gives 0. A value of length 0 changes nothing. There are no
parameters.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def without_own_value(context: Float[Array, "B T N Hv"], value: Float[Array, "B T K Hv"]) -> Float[Array, "B T N Hv"]:
    """The part of the contexts that is orthogonal to the values of their own positions, head by head.

    K divides N; head n uses the value of its group. Raises ValueError naming the argument and the axis.

    >>> y, v = jnp.array([1.0, 2.0]).reshape(1, 1, 1, 2), jnp.array([0.0, 3.0]).reshape(1, 1, 1, 2)
    >>> print(without_own_value(y, v)[0, 0, 0])
    [1. 0.]
    """
    sizes = check_shapes(context=(context, "B T N Hv"), value=(value, "B T K Hv"))
    if sizes["K"] == 0 or sizes["N"] % sizes["K"]:
        raise ValueError(
            f"value: axis K of [B T K Hv]: expected a divisor of the {sizes['N']} heads of context, got {sizes['K']}"
        )
    dtype = accumulator(context.dtype)
    grouped = context.astype(dtype).reshape(*value.shape[:3], sizes["N"] // sizes["K"], value.shape[3])
    own = value.astype(dtype)[:, :, :, None]
    # The result does not change with the length of v. A power of two near 1 / max |v| keeps |v|^2 representable.
    largest = lax.stop_gradient(jnp.max(jnp.abs(own), axis=-1, keepdims=True, initial=0))
    own = jnp.ldexp(own, jnp.minimum(-jnp.frexp(largest)[1], 126))
    square = jnp.sum(own * own, axis=-1, keepdims=True)
    share = jnp.sum(grouped * own, axis=-1, keepdims=True) / jnp.where(square > 0, square, jnp.ones_like(square))
    return (grouped - share * own).reshape(context.shape).astype(context.dtype)
