"""The inverted residual of MobileNetV2, Sandler et al. 2018 (arXiv 1801.04381), table 1, with fixed batch norms.

From k channels to k' channels, with expansion t and stride s:

    h = relu6(norm(x W_1))            1 x 1, k -> t k; omitted if t = 1
    h = relu6(norm(depthwise(h)))     3 x 3, each channel separately, stride s
    y = norm(h W_2)                   1 x 1, t k -> k', without an activation: the bottleneck is linear

The output is y + x if s = 1 and k = k', else y.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.norms.batch_norm import EPSILON
from attention_research.layers.vision.convolution import Convolution


class FixedBatchNorm(nnx.Module):
    """y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with constant moments from pretraining.

    The moments of small batches would be worse (Ioffe 2017, arXiv 1702.03275).
    """

    def __init__(self, width: int):
        self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((width,), jnp.float32))
        self.mean = nnx.BatchStat(jnp.zeros((width,), jnp.float32))
        self.variance = nnx.BatchStat(jnp.ones((width,), jnp.float32))

    def __call__(self, x: Float[Array, "*B C"]) -> Float[Array, "*B C"]:
        factor = self.scale[...] * jax.lax.rsqrt(self.variance[...] + EPSILON)
        shift = self.bias[...] - self.mean[...] * factor
        return x * factor.astype(x.dtype) + shift.astype(x.dtype)


class NormedConvolution(nnx.Module):
    """A convolution without a bias, followed by a batch norm."""

    def __init__(
        self, in_width: int, out_width: int, size: int = 1, *, stride: int = 1, groups: int = 1, rngs: nnx.Rngs
    ):
        self.convolution = Convolution(in_width, out_width, size, stride=stride, groups=groups, rngs=rngs)
        self.norm = FixedBatchNorm(out_width)

    def __call__(self, x: Float[Array, "B Y X I"]) -> Float[Array, "B V U O"]:
        return self.norm(self.convolution(x))


class InvertedResidual(nnx.Module):
    """An inverted residual block, [B Y X I] -> [B Y/s X/s O], rounded up."""

    def __init__(self, in_width: int, out_width: int, *, expansion: int, stride: int, rngs: nnx.Rngs):
        hidden = expansion * in_width
        self.has_residual = stride == 1 and in_width == out_width
        self.expand = None if expansion == 1 else NormedConvolution(in_width, hidden, rngs=rngs)
        self.depthwise = NormedConvolution(hidden, hidden, 3, stride=stride, groups=hidden, rngs=rngs)
        self.project = NormedConvolution(hidden, out_width, rngs=rngs)

    def __call__(self, x: Float[Array, "B Y X I"]) -> Float[Array, "B V U O"]:
        hidden = x if self.expand is None else jax.nn.relu6(self.expand(x))
        y = self.project(jax.nn.relu6(self.depthwise(hidden)))
        return x + y if self.has_residual else y
