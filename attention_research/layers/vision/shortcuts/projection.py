"""Projection shortcuts if the shape changes, He et al. 2015 (arXiv 1512.03385), equation 2, option B."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.norms.batch_norm import BatchNorm
from attention_research.layers.running_statistics import nested
from attention_research.layers.vision.convolution import Convolution
from attention_research.signatures import Given


class ProjectionShortcut(nnx.Module):
    """Adds norm(W_s x) to y, where W_s is a 1 x 1 convolution with the block's stride. Adds x if the shape is equal."""

    def __init__(self, *, in_width: Given[int], out_width: Given[int], stride: Given[int], rngs: nnx.Rngs):
        changes = stride > 1 or in_width != out_width
        self.convolution = Convolution(in_width, out_width, 1, stride=stride, rngs=rngs) if changes else None
        self.norm = BatchNorm(out_width, rngs=rngs) if changes else None

    def __call__(
        self, x: Float[Array, "B Y X I"], y: Float[Array, "B V U O"], *, training: bool
    ) -> tuple[Float[Array, "B V U O"], dict[str, Any]]:
        """Returns (y plus x in the shape of y, updates of the running moments)."""
        if self.convolution is None or self.norm is None:
            return y + x, {}
        x, updates = self.norm(self.convolution(x), training=training)
        return y + x, nested(norm=updates)
