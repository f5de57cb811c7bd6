"""Random Synthesizer plus dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4: softmax(Q K^T + R) V.

R [max_length N max_length] is a trained table, the same for every example (`random_synthesizer`).
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.multi_head import Offset
from attention_research.layers.attention.random_synthesizer import rows, score_table
from attention_research.layers.attention.synthesizer_plus import SynthesizerPlus


class RandomSynthesizerPlus(SynthesizerPlus):
    """Random Synthesizer scores plus dot products. Parameters: 4 D N H + N max_length^2."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.score_table = score_table(self.max_length, self.num_heads, rngs)

    def synthetic(self, query: Array, key_length: int, offset: Offset) -> Float[Array, "1 N T S"]:
        """Rows offset to offset + T - 1 of R."""
        return rows(self.score_table[...], query.shape[1], key_length, offset)
