"""Identity shortcuts, He et al. 2015 (arXiv 1512.03385), equation 1; where the shape changes, its option A.

There every stride-th pixel is taken and zeros stand for the new channels: no parameters. Half of the zeros come before
the channels that are there and half after, as in the CIFAR-10 networks that are in use.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.signatures import Given


class IdentityShortcut(nnx.Module):
    """y + x; owns nothing."""

    def __init__(self, *, in_width: Given[int], out_width: Given[int], stride: Given[int], rngs: nnx.Rngs):
        del in_width, out_width, rngs
        self.stride = stride

    def __call__(
        self, x: Float[Array, "B Y X I"], y: Float[Array, "B V U O"], *, training: bool
    ) -> tuple[Float[Array, "B V U O"], dict[str, Any]]:
        """(y plus x as y's shape has it, {})."""
        del training
        more = y.shape[-1] - x.shape[-1]
        x = x[:, :: self.stride, :: self.stride]
        return y + jnp.pad(x, ((0, 0), (0, 0), (0, 0), (more // 2, more - more // 2))), {}
