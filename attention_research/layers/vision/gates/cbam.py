"""CBAM, Woo et al. 2018 (arXiv 1807.06521), equation 1: channel attention, then spatial attention."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.vision import cbam
from attention_research.layers.vision.gates.excitation import Excitation
from attention_research.layers.vision.gates.spatial import spatial_kernel
from attention_research.signatures import Given, Positive


class CBAM(nnx.Module):
    """CBAM with the paper's defaults: `reduction` 16 and a kernel of `size` 7."""

    def __init__(self, *, reduction: Positive = 16, size: Positive = 7, channels: Given[int], rngs: nnx.Rngs):
        self.excitation = Excitation(channels, reduction, rngs=rngs)
        self.kernel = spatial_kernel(size, rngs)

    def __call__(
        self, x: Float[Array, "B Y X C"], *, training: bool
    ) -> tuple[Float[Array, "B Y X C"], dict[str, Array]]:
        """Returns (x times its gates, {"channels": [B C], "pixels": [B Y X]})."""
        del training
        x, channels, pixels = cbam(x, *self.excitation.kernels(), self.kernel[...])
        return x, {"channels": channels, "pixels": pixels}
