"""The branched convolutions of the Evolved Transformer's decoder, So et al. 2019 (arXiv 1901.11117), Figure 3.

y = sep7(LN(relu(sep11(x)) + [sep7'(x); 0])): separable convolutions of 11 taps D -> 2D, of 7 taps D -> D/2, of 7 taps
2D -> D, all causal; [.; 0] are zeros beside the channels up to 2D. As Narang et al. 2021 ran it (Mesh TensorFlow's
DecoderConvolutionalLayer), less the dropout that stands there behind each of the three too. The norm inside is a layer
norm whatever the block's norms are. The examples of a packed row are kept apart as in `layers.convolution.separable`.
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
    """[B T D] -> [B T D], position t from 0..t; 2D is `expansion` D. The cache is what each convolution last read."""

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
        """(y, nothing beside it); what `mask` hides from a position counts as 0 in each convolution."""
        hidden = self._joined(*(branch(x, mask=mask, is_causal=True) for branch in (self.left, self.right)))
        return self.separable(hidden, mask=mask, is_causal=True), {}

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """The last W - 1 inputs of each convolution, whatever the length."""
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
        """The next position: (y, cache, nothing beside them)."""
        del index, shared
        left, left_inputs = self.left.step(x, cache["left"])
        right, right_inputs = self.right.step(x, cache["right"])
        y, inputs = self.separable.step(self._joined(left, right), cache["separable"])
        return y, {"left": left_inputs, "right": right_inputs, "separable": inputs}, {}

    def _joined(self, left: Float[Array, "B T F"], right: Float[Array, "B T R"]) -> Float[Array, "B T F"]:
        """LN(relu(left) + [right; 0])."""
        return self.norm(jax.nn.relu(left) + widened(right, left.shape[-1]))
