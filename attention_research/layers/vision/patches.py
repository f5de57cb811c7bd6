"""Patches of an image as tokens, Dosovitskiy et al. 2021 (arXiv 2010.11929), equation 1: x_p E for each patch x_p.

An image [B Y X C] is split into N = Y X / P^2 patches of P x P pixels, row by row. Each patch is flattened to a vector
of P^2 C numbers (row, column, channel), and a linear layer E [P^2 C, D] with a bias projects it. This equals the
convolution of stride P in the released code.
"""

from __future__ import annotations

from typing import Literal

from flax import nnx
from jaxtyping import Array, Float, UInt8

from attention_research.layers.linear import Linear
from attention_research.layers.vision.pixels import scaled


def patches(image: Float[Array, "B Y X C"], side: int) -> Float[Array, "B N F"]:
    """The flattened patches [B N P*P*C] of an image, row by row. Raises ValueError unless `side` divides its sides.

    >>> import jax.numpy as jnp
    >>> patches(jnp.arange(16.0).reshape(1, 4, 4, 1), 2)[0, 1].tolist()
    [2.0, 3.0, 6.0, 7.0]
    """
    batch, height, width, channels = image.shape
    if height % side or width % side:
        raise ValueError(f"patch_side: {side} does not divide an image of {height} x {width} pixels")
    rows, columns = height // side, width // side
    blocks = image.reshape(batch, rows, side, columns, side, channels).swapaxes(2, 3)
    return blocks.reshape(batch, rows * columns, side * side * channels)


class PatchEmbedding(nnx.Module):
    """Scales uint8 pixels to [-1, 1], as the released models do, and applies E of equation 1 to the patches."""

    def __init__(
        self, *, patch_side: int, channels: int, width: int, dtype: Literal["float32", "bfloat16"], rngs: nnx.Rngs
    ):
        self.patch_side, self.channels, self.dtype = patch_side, channels, dtype
        self.projection = Linear(patch_side * patch_side * channels, width, rngs=rngs)

    def __call__(self, image: UInt8[Array, "B Y X C"]) -> Float[Array, "B N D"]:
        """The patch embeddings. Raises ValueError if the images have a different number of channels."""
        if image.shape[-1] != self.channels:
            raise ValueError(f"channels: expected images with {self.channels} channels, got {image.shape[-1]}")
        return self.projection(patches(scaled(image, dtype=self.dtype), self.patch_side))
