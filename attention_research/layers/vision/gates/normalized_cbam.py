"""CBAM as it was released, Woo et al. 2018 (arXiv 1807.06521): channel attention, then `normalized_spatial`."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import channel_attention
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.layers.vision.gates.excitation import Excitation
from attention_research.layers.vision.gates.normalized_spatial import NormalizedSpatialGate
from attention_research.signatures import Given, Positive


class NormalizedCBAM(nnx.Module):
    """CBAM as released, with the paper's defaults: `reduction` 16 and a kernel of `size` 7."""

    def __init__(self, *, reduction: Positive = 16, size: Positive = 7, channels: Given[int], rngs: nnx.Rngs):
        self.excitation = Excitation(channels, reduction, rngs=rngs)
        self.spatial = NormalizedSpatialGate(size=size, channels=channels, rngs=rngs)

    def __call__(self, x: Float[Array, "B Y X C"], *, training: bool) -> tuple[Float[Array, "B Y X C"], dict[str, Any]]:
        """Returns (x times its gates, {"channels": [B C], "pixels": [B Y X], "updates"})."""
        x, channels = channel_attention(x, *self.excitation.kernels())
        x, found = self.spatial(x, training=training)
        return x, {"channels": channels, "pixels": found["pixels"], UPDATES: nested(spatial=found[UPDATES])}
