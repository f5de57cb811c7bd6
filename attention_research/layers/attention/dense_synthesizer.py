"""Dense Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.1, as released: softmax(relu(q_n) Pi) V.

Position i predicts its score for every place from itself alone. The paper has two layers of its own in each head, with
biases; the Mesh TensorFlow release, which Narang et al. 2021 ran, takes the usual query projection for the first and
one Pi [H max_length] for the second, shared by the heads, without biases. Keys and values are one projection there;
as nothing reads the keys, it is the values'.
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
    """Parameters: 3 D N H + H max_length."""

    def __init__(self, *, width: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.query = Linear(width, self.num_heads * self.head_width, use_bias=False, rngs=rngs)
        self.score = Linear(self.head_width, self.max_length, use_bias=False, rngs=rngs)

    def scores(self, x: Float[Array, "B T D"], key_length: int, offset: Offset) -> Float[Array, "B N T S"]:
        """relu(q_n) Pi for all `max_length` places, as released; the first of them."""
        del offset
        query = self.query(x).reshape(*x.shape[:2], self.num_heads, self.head_width)
        return released_dense_synthesizer_scores(query, self.score.kernel[...])[..., :key_length]
