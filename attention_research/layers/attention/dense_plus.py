"""Dense Synthesizer plus dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4: softmax(Q K^T + relu(Q) Pi) V.

Pi [H max_length] is shared by the heads, and reads the queries that the dot products use (`synthesizer_plus`).
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels.no_dot_product.dense_synthesizer import released_dense_synthesizer_scores
from attention_research.layers.attention.synthesizer_plus import SynthesizerPlus
from attention_research.layers.linear import Linear
from attention_research.registry import Positive


class DenseSynthesizerPlus(SynthesizerPlus):
    """Parameters: 4 D N H + H max_length."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        max_length: Positive,
        num_buckets: Positive = 32,
        max_distance: Positive = 128,
        rngs: nnx.Rngs,
    ):
        del num_buckets, max_distance  # the stack's table has them
        super().__init__(width=width, num_heads=num_heads, head_width=head_width, max_length=max_length, rngs=rngs)
        self.score = Linear(self.head_width, max_length, use_bias=False, rngs=rngs)

    def synthetic(
        self, query: Float[Array, "B T N H"], key_length: int, offset: Int[Array, ""] | int
    ) -> Float[Array, "B N T S"]:
        """relu(q_n) Pi for all `max_length` places, as released; the first of them."""
        del offset
        return released_dense_synthesizer_scores(query, self.score.kernel[...])[..., :key_length]
