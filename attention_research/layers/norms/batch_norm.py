"""Batch normalisation, Ioffe & Szegedy 2015 (arXiv 1502.03167), algorithm 1: a feature by its moments over the batch.

y = gamma (x - E[x]) / sqrt(Var[x] + epsilon) + beta, the moments over every axis but the last: in training the batch's
own, otherwise running ones, r <- (1 - m) r + m (moment of the batch), with the variance's unbiased estimate (section
3.1). Under `jit` on a mesh the moments are the global batch's; under `pmap` each device has its own, and the running
ones are the devices' mean; with accumulation each part of the batch has its own likewise.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator
from attention_research.layers.running_statistics import RunningStatistic

#: m and epsilon of He et al. 2015's and PyTorch's networks.
MOMENTUM, EPSILON = 0.1, 1e-5


class BatchNorm(nnx.Module):
    """Gain [C] one, bias [C] zero, running mean [C] zero and variance [C] one; moments in float32."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        del rngs
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))
        self.mean = RunningStatistic(jnp.zeros((width,), jnp.float32))
        self.variance = RunningStatistic(jnp.ones((width,), jnp.float32))

    def __call__(
        self, x: Float[Array, "*B C"], *, training: bool
    ) -> tuple[Float[Array, "*B C"], dict[str, Float[Array, "C"]]]:
        """(y, updates): what replaces the running moments, {} outside training."""
        if not training:
            return self._normalized(x, self.mean[...], self.variance[...]), {}
        wide = x.astype(accumulator(x.dtype))
        axes = tuple(range(x.ndim - 1))
        mean = jnp.mean(wide, axis=axes)
        variance = jnp.mean(jnp.square(wide - mean), axis=axes)
        number = x.size // x.shape[-1]
        updates = {
            "mean": _moved(self.mean[...], mean),
            "variance": _moved(self.variance[...], variance * (number / max(number - 1, 1))),
        }
        return self._normalized(x, mean, variance), updates

    def _normalized(self, x: Array, mean: Array, variance: Array) -> Array:
        dtype = accumulator(x.dtype)
        factor = self.scale[...].astype(dtype) * jax.lax.rsqrt(variance.astype(dtype) + EPSILON)
        y = (x.astype(dtype) - mean.astype(dtype)) * factor + self.bias[...].astype(dtype)
        return y.astype(x.dtype)


def _moved(before: Array, now: Array) -> Array:
    return jax.lax.stop_gradient((1 - MOMENTUM) * before + MOMENTUM * now.astype(before.dtype))
