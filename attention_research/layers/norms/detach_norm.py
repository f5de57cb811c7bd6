"""DetachNorm, Xu et al. 2019 (arXiv 1911.07013): layer norm with its statistics constant in the gradient.

y = gamma (x - mean) / sqrt(variance + epsilon) + beta as in layer norm, but dx = g gamma / sqrt(variance + epsilon).
The gradient of layer norm also subtracts the mean of the cotangents and their component along the normalized x. The
difference to layer norm measures the contribution of the derivatives of mean and variance.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator
from attention_research.signatures import Positive, PositiveFloat


class DetachNorm(nnx.Module):
    """DetachNorm over the last axis of width D, with gain [D] (ones) and bias [D] (zeros); statistics in float32."""

    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-6, rngs: nnx.Rngs):
        del rngs
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        wide = x.astype(accumulator(x.dtype))
        mean = lax.stop_gradient(jnp.mean(wide, axis=-1, keepdims=True))
        variance = jnp.mean(jnp.square(wide - mean), axis=-1, keepdims=True)
        normal = (wide - mean) * lax.stop_gradient(lax.rsqrt(variance + self.epsilon))
        return (normal * self.scale[...].astype(wide.dtype) + self.bias[...].astype(wide.dtype)).astype(x.dtype)
