"""Dense Synthesizer plus dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4: softmax(Q K^T + relu(Q) Pi) V.

Pi [H max_length] is shared by the heads, and reads the queries that the dot products use (`synthesizer_plus`).
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.no_dot_product.dense_synthesizer import released_dense_synthesizer_scores
from attention_research.layers.attention.multi_head import Offset
from attention_research.layers.attention.synthesizer_plus import SynthesizerPlus
from attention_research.layers.linear import Linear


class DenseSynthesizerPlus(SynthesizerPlus):
    """Parameters: 4 D N H + H max_length."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.score = Linear(self.head_width, self.max_length, use_bias=False, rngs=rngs)

    def synthetic(self, query: Array, key_length: int, offset: Offset) -> Float[Array, "B N T S"]:
        """relu(q_n) Pi for all `max_length` places, as released; the first of them."""
        del offset
        return released_dense_synthesizer_scores(query, self.score.kernel[...])[..., :key_length]
