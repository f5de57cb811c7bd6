"""Batch normalization, Ioffe & Szegedy 2015 (arXiv 1502.03167), algorithm 1.

y = gamma (x - E[x]) / sqrt(Var[x] + epsilon) + beta, with moments over all axes but the last. Training uses the moments
of the batch. Evaluation uses running moments, r <- (1 - m) r + m (moment of the batch), with the unbiased estimate of
the variance (section 3.1). Under `jit` on a mesh, the moments are those of the global batch. Under `pmap`, each device
uses its own moments, and the running moments are averaged over devices. With gradient accumulation, each part of the
batch uses its own moments.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator
from attention_research.layers.running_statistics import RunningStatistic

#: m and epsilon, as in the networks of He et al. 2015 and of PyTorch.
MOMENTUM, EPSILON = 0.1, 1e-5


class BatchNorm(nnx.Module):
    """Batch normalization of the last axis, with gain, bias, running mean and running variance [C].

    Gain and running variance are initialized to 1, bias and running mean to 0. Moments are computed in float32.
    """

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        del rngs
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))
        self.mean = RunningStatistic(jnp.zeros((width,), jnp.float32))
        self.variance = RunningStatistic(jnp.ones((width,), jnp.float32))

    def __call__(
        self, x: Float[Array, "*B C"], *, training: bool
    ) -> tuple[Float[Array, "*B C"], dict[str, Float[Array, "C"]]]:
        """Returns (y, updates of the running moments, or {} if not `training`)."""
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
