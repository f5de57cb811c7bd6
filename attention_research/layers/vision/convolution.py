"""A zero-padded convolution of images [B Y X C], with the initialization of He et al. 2015 (arXiv 1502.01852)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

#: N(0, 2 / fan_in), not truncated, equation 10, for layers that are followed by a ReLU.
he_normal = jax.nn.initializers.variance_scaling(2.0, "fan_in", "normal")


class Convolution(nnx.Module):
    """A convolution with kernel [size size in/groups out], computed in x's dtype. `size` is odd.

    Each side is padded with (size - 1) / 2 zeros, whatever the stride, so that an image of side Y gives an output of
    side ceil(Y / stride).
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        size: int,
        *,
        stride: int = 1,
        groups: int = 1,
        use_bias: bool = False,
        rngs: nnx.Rngs,
    ):
        self.stride, self.groups = stride, groups
        self.kernel = nnx.Param(he_normal(rngs.params(), (size, size, in_width // groups, out_width), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((out_width,), jnp.float32)) if use_bias else None

    def __call__(self, x: Float[Array, "B Y X I"]) -> Float[Array, "B V U O"]:
        kernel = self.kernel[...].astype(x.dtype)
        margin = (kernel.shape[0] - 1) // 2
        y = jax.lax.conv_general_dilated(
            x, kernel, (self.stride, self.stride), [(margin, margin)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=self.groups,
        )  # fmt: skip
        return y if self.bias is None else y + self.bias[...].astype(x.dtype)
