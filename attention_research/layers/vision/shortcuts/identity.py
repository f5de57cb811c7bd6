"""Identity shortcuts, He et al. 2015 (arXiv 1512.03385), equation 1, with option A if the shape changes.

Option A takes every stride-th pixel and pads the channels with zeros, without parameters. Half of the zeros are before
the existing channels and half after, as in common CIFAR-10 networks.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.signatures import Given


class IdentityShortcut(nnx.Module):
    """Adds x to y. It has no parameters."""

    def __init__(self, *, in_width: Given[int], out_width: Given[int], stride: Given[int], rngs: nnx.Rngs):
        del in_width, out_width, rngs
        self.stride = stride

    def __call__(
        self, x: Float[Array, "B Y X I"], y: Float[Array, "B V U O"], *, training: bool
    ) -> tuple[Float[Array, "B V U O"], dict[str, Any]]:
        """Returns (y plus x in the shape of y, {})."""
        del training
        more = y.shape[-1] - x.shape[-1]
        x = x[:, :: self.stride, :: self.stride]
        return y + jnp.pad(x, ((0, 0), (0, 0), (0, 0), (more // 2, more - more // 2))), {}
