"""The branched convolutions of the Evolved Transformer's decoder, So et al. 2019 (arXiv 1901.11117), Figure 3.

y = sep7(LN(relu(sep11(x)) + [sep7'(x); 0])), where sep11 is a separable convolution D -> 2D with 11 taps, sep7' one
D -> D/2 with 7 taps, and sep7 one 2D -> D with 7 taps. All are causal. [.; 0] pads the channels with zeros to 2D. This
is the layer that Narang et al. 2021 ran (Mesh TensorFlow's DecoderConvolutionalLayer), without its dropout after each
of the three convolutions. The inner norm is always a layer norm, whatever the norms of the block are. Examples of a
packed row are kept separate as in `layers.convolution.separable`.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.attention.multi_head import Mask
from attention_research.layers.convolution.evolved_encoder import widened
from attention_research.layers.convolution.separable import SeparableConvolution
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.signatures import Positive


class EvolvedDecoderConvolution(nnx.Module):
    """Causal branched convolutions, [B T D] -> [B T D]. `expansion` is the factor 2 of 2D.

    The cache holds the last inputs of each convolution.

    `left_kernel_width` is the number of taps of sep11, `right_kernel_width` that of sep7', and `kernel_width` that of
    sep7.
    """

    def __init__(
        self,
        *,
        width: Positive,
        expansion: Positive = 2,
        left_kernel_width: Positive = 11,
        right_kernel_width: Positive = 7,
        kernel_width: Positive = 7,
        rngs: nnx.Rngs,
    ):
        hidden = expansion * width
        self.left = SeparableConvolution(width, hidden, left_kernel_width, rngs=rngs)
        self.right = SeparableConvolution(width, width // 2, right_kernel_width, rngs=rngs)
        self.norm = LayerNorm(width=hidden, rngs=rngs)
        self.separable = SeparableConvolution(hidden, width, kernel_width, rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T D"], *, mask: Mask | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (y, {}). Inputs that `mask` hides from a position count as 0 in each convolution."""
        hidden = self._joined(*(branch(x, mask=mask, is_causal=True) for branch in (self.left, self.right)))
        return self.separable(hidden, mask=mask, is_causal=True), {}

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """The cache: the last W - 1 inputs of each convolution, independent of the length."""
        del length
        convolutions = {"left": self.left, "right": self.right, "separable": self.separable}
        return {name: convolution.start(batch, dtype) for name, convolution in convolutions.items()}

    def step(
        self,
        x: Float[Array, "B 1 D"],
        cache: dict[str, Array],
        index: Int[Array, ""],
        *,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:
        """Decodes the next position. Returns (y, cache, {})."""
        del index, shared
        left, left_inputs = self.left.step(x, cache["left"])
        right, right_inputs = self.right.step(x, cache["right"])
        y, inputs = self.separable.step(self._joined(left, right), cache["separable"])
        return y, {"left": left_inputs, "right": right_inputs, "separable": inputs}, {}

    def _joined(self, left: Float[Array, "B T F"], right: Float[Array, "B T R"]) -> Float[Array, "B T F"]:
        """LN(relu(left) + [right; 0])."""
        return self.norm(jax.nn.relu(left) + widened(right, left.shape[-1]))
