"""CBAM's channel attention alone, Woo et al. 2018 (arXiv 1807.06521), equation 2: gates from mean and maximum."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import channel_attention
from attention_research.layers.vision.gates.excitation import Excitation
from attention_research.signatures import Given, Positive


class ChannelGate(nnx.Module):
    """Channel attention with one MLP for mean and maximum. The default `reduction` 16 is the paper's."""

    def __init__(self, *, reduction: Positive = 16, channels: Given[int], rngs: nnx.Rngs):
        self.excitation = Excitation(channels, reduction, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B Y X C"], *, training: bool
    ) -> tuple[Float[Array, "B Y X C"], dict[str, Array]]:
        """Returns (x times its gates, {"channels": the gates [B C]})."""
        del training
        x, channels = channel_attention(x, *self.excitation.kernels())
        return x, {"channels": channels}
