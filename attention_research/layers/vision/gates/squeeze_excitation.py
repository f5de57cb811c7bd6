"""Squeeze-and-excitation, Hu, Shen & Sun 2018 (arXiv 1709.01507), equations 2 to 4: a gate for each channel."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.vision import squeeze_excitation
from attention_research.layers.vision.gates.excitation import Excitation
from attention_research.signatures import Given, Positive


class SqueezeExcitation(nnx.Module):
    """Squeeze-and-excitation with 2 C^2 / r weights per block. `reduction` is r, 16 in the paper."""

    def __init__(self, *, reduction: Positive = 16, channels: Given[int], rngs: nnx.Rngs):
        self.excitation = Excitation(channels, reduction, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B Y X C"], *, training: bool
    ) -> tuple[Float[Array, "B Y X C"], dict[str, Array]]:
        """Returns (x times its gates, {"channels": the gates [B C]})."""
        del training
        x, channels = squeeze_excitation(x, *self.excitation.kernels())
        return x, {"channels": channels}
