"""The precision of products and sums in kernels."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.derivatives import both_modes


def accumulator(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of logits, softmax, statistics and sums: float32, or float64 for float64 inputs."""
    return jnp.dtype(jnp.float64 if dtype == jnp.float64 else jnp.float32)


def einsum(subscripts: str, a: Array, b: Array) -> Array:
    """`jnp.einsum` of two arrays of equal dtype. Products have that dtype; sums and result the accumulator's dtype.

    The same holds for the two products of the gradient, because the cotangent is first rounded to the dtype of the
    inputs. `jnp.einsum` alone would multiply a float32 cotangent with a bfloat16 input, which is a float32 product.

    XLA's CPU backend (0.10.2) rejects some bfloat16 products because of the order of their operands: "BTNH,HS->BNTS",
    but not "HS,BTNH->BNTS".
    """
    if a.dtype == accumulator(a.dtype):
        return jnp.einsum(subscripts, a, b)
    plain = partial(jnp.einsum, subscripts, preferred_element_type=accumulator(a.dtype))
    return both_modes(partial(_narrow, subscripts), plain)(a, b)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _narrow(subscripts: str, a: Array, b: Array) -> Array:
    return jnp.einsum(subscripts, a, b, preferred_element_type=accumulator(a.dtype))


def _forward(subscripts: str, a: Array, b: Array) -> tuple[Array, tuple[Array, Array]]:
    # This does not call _narrow, which has no forward mode, because second derivatives differentiate this function.
    return jnp.einsum(subscripts, a, b, preferred_element_type=accumulator(a.dtype)), (a, b)


def _backward(subscripts: str, inputs: tuple[Array, Array], cotangent: Array) -> tuple[Any, ...]:
    _, pull = jax.vjp(partial(jnp.einsum, subscripts), *inputs)
    return pull(cotangent.astype(inputs[0].dtype))


_narrow.defvjp(_forward, _backward)
