"""Random Synthesizer plus dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4: softmax(Q K^T + R) V.

R [max_length N max_length] is a trained table, the same for every example (`random_synthesizer`).
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.attention.random_synthesizer import rows, score_table
from attention_research.layers.attention.synthesizer_plus import SynthesizerPlus
from attention_research.registry import Positive


class RandomSynthesizerPlus(SynthesizerPlus):
    """Parameters: 4 D N H + N max_length^2."""

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
        self.score_table = score_table(max_length, num_heads, rngs)

    def synthetic(
        self, query: Float[Array, "B T N H"], key_length: int, offset: Int[Array, ""] | int
    ) -> Float[Array, "1 N T S"]:
        """The rows offset .. offset + T - 1 of R."""
        return rows(self.score_table[...], query.shape[1], key_length, offset)
