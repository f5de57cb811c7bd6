"""Decays with a learned step size, Gu & Dao 2023 (arXiv 2312.00752), section 3.6: log decay = -A softplus(x W + b)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator


def step_bias(channels: int, rngs: nnx.Rngs) -> Float[Array, "C"]:
    """A bias b that makes softplus(b) log-uniform between 0.001 and 0.1."""
    between = jax.random.uniform(rngs.params(), (channels,), jnp.float32, jnp.log(1e-3), jnp.log(0.1))
    size = jnp.maximum(jnp.exp(between), 1e-4)
    return size + jnp.log(-jnp.expm1(-size))  # the inverse of softplus


class StepSize(nnx.Module):
    """A [N] from U(low, 16), and the bias b (`step_bias`).

    A is kept as its logarithm. `channels` is the number of biases of a head. Neither has weight decay.
    """

    def __init__(self, num_heads: int, *, channels: int = 1, low: float = 1.0, rngs: nnx.Rngs):
        rates = jax.random.uniform(rngs.params(), (num_heads,), jnp.float32, low, 16.0)
        self.rate_log = nnx.Param(jnp.log(jnp.maximum(rates, 1e-4)))
        self.bias = nnx.Param(step_bias(num_heads * channels, rngs))

    def __call__(self, logits: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Float[Array, "B T C"]]:
        """(log decay, softplus(logits + b)), in the accumulator's dtype."""
        wide = accumulator(logits.dtype)
        size = jax.nn.softplus(logits.astype(wide) + self.bias[...].astype(wide))
        rate = jnp.repeat(jnp.exp(self.rate_log[...].astype(wide)), size.shape[-1] // self.rate_log.shape[0])
        return -rate * size, size
