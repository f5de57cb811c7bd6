"""The temporal convolutional network (TCN), Bai, Kolter & Koltun 2018 (arXiv 1803.01271), section 3.

    h_(l+1) = relu(h_l + d(relu(c2(d(relu(c1(h_l)))))))

c1 and c2 are causal convolutions with `kernel_width` taps 2^l positions apart, with weight normalization (Salimans &
Kingma 2016). d is spatial dropout: it zeroes a channel at all positions. Where the numbers of channels differ, a matrix
maps h_l. The receptive field of L levels is 1 + 2 (kernel_width - 1)(2^L - 1).

The initialization is that of the released code. The paper says that all weights begin at N(0, 0.01^2). In the code,
this has no effect on the convolutions, since weight normalization computes their weights from v and g before each
pass. They begin at PyTorch's default, U(-1/sqrt(n), 1/sqrt(n)) for weights and biases, where n is the number of inputs
of an output. Only the matrix of the shortcut begins at N(0, 0.01^2).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.kernels import sequence_convolution
from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.models.series.model import split_key
from attention_research.signatures import Given, Positive, Rate

#: The standard deviation of the matrix of the shortcut at its start.
DEVIATION = 0.01


class WeightNormedConvolution(nnx.Module):
    """A causal convolution with the kernel g v / |v|: one gain g and one norm |v| for each output channel.

    The gain begins at |v|, so that the kernel begins at v.
    """

    def __init__(self, in_width: int, out_width: int, kernel_width: int, dilation: int, *, rngs: nnx.Rngs):
        self.dilation = dilation
        limit = (kernel_width * in_width) ** -0.5
        uniform = lambda *shape: jax.random.uniform(rngs.params(), shape, jnp.float32, -limit, limit)
        self.kernel = nnx.Param(uniform(kernel_width, in_width, out_width))
        self.gain = nnx.Param(jnp.sqrt(jnp.sum(jnp.square(self.kernel[...]), axis=(0, 1))))
        self.bias = nnx.Param(uniform(out_width))

    def __call__(self, x: Float[Array, "B T I"]) -> Float[Array, "B T O"]:
        v = self.kernel[...]
        kernel = v * (self.gain[...] * jax.lax.rsqrt(jnp.sum(jnp.square(v), axis=(0, 1))))
        y = sequence_convolution(x, kernel, left=len(v) - 1, dilation=self.dilation)
        return y + self.bias[...].astype(x.dtype)


class TemporalBlock(nnx.Module):
    """One level: two convolutions and the residual connection."""

    def __init__(
        self, in_width: int, width: int, kernel_width: int, dilation: int, dropout_rate: float, *, rngs: nnx.Rngs
    ):
        self.dropout_rate = dropout_rate
        self.first = WeightNormedConvolution(in_width, width, kernel_width, dilation, rngs=rngs)
        self.second = WeightNormedConvolution(width, width, kernel_width, dilation, rngs=rngs)
        self.shortcut = Linear(in_width, width, rngs=rngs) if in_width != width else None
        if self.shortcut is not None:
            self.shortcut.kernel[...] = DEVIATION * jax.random.normal(rngs.params(), (in_width, width))

    def __call__(self, x: Float[Array, "B T I"], key: Key[Array, ""] | None) -> Float[Array, "B T D"]:
        y = x
        for convolution, own in zip((self.first, self.second), split_key(key, 2), strict=True):
            y = spatial_dropout(jax.nn.relu(convolution(y)), self.dropout_rate, own)
        return jax.nn.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class TemporalConvolution(nnx.Module):
    """[B T I] -> [B T D] by `num_layers` levels of `width` channels.

    `kernel_width` is the number of taps of each convolution.
    """

    def __init__(
        self,
        *,
        input_width: Given[int],
        width: Positive,
        num_layers: Positive,
        kernel_width: Positive,
        dropout_rate: Rate,
        rngs: nnx.Rngs,
    ):
        widths = [input_width, *[width] * (num_layers - 1)]
        self.blocks = nnx.List(
            [TemporalBlock(one, width, kernel_width, 2**level, dropout_rate, rngs=rngs)
             for level, one in enumerate(widths)]
        )  # fmt: skip

    def __call__(
        self, x: Float[Array, "B T I"], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, {})."""
        for block, own in zip(self.blocks, split_key(key, len(self.blocks)), strict=True):
            x = block(x, own)
        return x, {}


def spatial_dropout(x: Float[Array, "B T D"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "B T D"]:
    """Dropout of whole channels, Tompson et al. 2015: a channel is zeroed at all positions or at none."""
    return x if key is None else x * dropout(jnp.ones_like(x[:, :1]), rate, key)
