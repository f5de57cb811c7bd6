"""Patches of an image as tokens, Dosovitskiy et al. 2021 (arXiv 2010.11929), equation 1: x_p E for each patch x_p.

An image [B Y X C] becomes its N = Y X / P^2 patches of P x P pixels, row by row, and each patch a vector of P^2 C
numbers (row, column, channel), which one linear layer E [P^2 C, D] with a bias projects: as the released code, whose
convolution of stride P this is.
"""

from __future__ import annotations

from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, UInt8

from attention_research.layers.linear import Linear
from attention_research.layers.vision.pixels import scaled


def patches(image: Float[Array, "B Y X C"], side: int) -> Float[Array, "B N F"]:
    """The patches [B N P*P*C], row by row, each flattened the same way; raises ValueError where they do not fit.

    >>> import jax.numpy as jnp
    >>> patches(jnp.arange(16.0).reshape(1, 4, 4, 1), 2)[0, 1].tolist()
    [2.0, 3.0, 6.0, 7.0]
    """
    batch, height, width, channels = image.shape
    if height % side or width % side:
        raise ValueError(f"patch_side: {side} divides no image of {height} x {width}")
    rows, columns = height // side, width // side
    blocks = image.reshape(batch, rows, side, columns, side, channels).swapaxes(2, 3)
    return blocks.reshape(batch, rows * columns, side * side * channels)


class PatchEmbedding(nnx.Module):
    """uint8 pixels, 0 to 255, as numbers from -1 to 1 (the released models' scale), then equation 1's E."""

    def __init__(
        self, *, patch_side: int, channels: int, width: int, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        self.patch_side, self.channels, self.dtype = patch_side, channels, dtype
        self.projection = Linear(patch_side * patch_side * channels, width, rngs=rngs)

    def __call__(self, image: UInt8[Array, "B Y X C"]) -> Float[Array, "B N D"]:
        """Raises ValueError for images of other channels."""
        if image.shape[-1] != self.channels:
            raise ValueError(f"channels: the model reads {self.channels}, the images have {image.shape[-1]}")
        return self.projection(patches(scaled(image, dtype=self.dtype), self.patch_side))
