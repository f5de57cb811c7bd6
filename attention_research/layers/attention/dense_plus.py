"""Dense Synthesizer plus dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4: softmax(Q K^T + relu(Q) Pi) V.

All heads share Pi [H max_length]. It is applied to the queries of the dot products (`synthesizer_plus`).
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
    """Dense Synthesizer scores plus dot products. Parameters: 4 D N H + H max_length."""

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.score = Linear(self.head_width, self.max_length, use_bias=False, rngs=rngs)

    def synthetic(self, query: Array, key_length: int, offset: Offset) -> Float[Array, "B N T S"]:
        """The first `key_length` columns of relu(q_n) Pi, computed for all `max_length` positions as in the release."""
        del offset
        return released_dense_synthesizer_scores(query, self.score.kernel[...])[..., :key_length]
