"""Dense Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.1, as released: softmax(relu(q_n) Pi) V.

Position i predicts its scores for all positions from its own input alone. In the paper, each head has two layers with
biases. The Mesh TensorFlow release, which Narang et al. 2021 ran, uses the query projection as the first layer and one
matrix Pi [H max_length], shared by the heads, as the second, without biases. Keys and values share one projection
there; since the keys are not used, it is the value projection here.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.no_dot_product.dense_synthesizer import released_dense_synthesizer_scores
from attention_research.layers.attention.multi_head import Offset
from attention_research.layers.attention.synthesizer import Synthesizer
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class DenseSynthesizer(Synthesizer):
    """The Dense Synthesizer. Parameters: 3 D N H + H max_length."""

    def __init__(self, *, width: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.query = Linear(width, self.num_heads * self.head_width, use_bias=False, rngs=rngs)
        self.score = Linear(self.head_width, self.max_length, use_bias=False, rngs=rngs)

    def scores(self, x: Float[Array, "B T D"], key_length: int, offset: Offset) -> Float[Array, "B N T S"]:
        """The first `key_length` columns of relu(q_n) Pi, computed for all `max_length` positions as in the release."""
        del offset
        query = self.query(x).reshape(*x.shape[:2], self.num_heads, self.head_width)
        return released_dense_synthesizer_scores(query, self.score.kernel[...])[..., :key_length]
