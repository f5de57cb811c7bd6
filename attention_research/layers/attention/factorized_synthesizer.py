"""Factorized random Synthesizer as released: scores_nij = sum_r R1_rnj R2_rnj, the same for every query position i.

The equation of Tay et al. 2020 (arXiv 2005.00743), section 3.3, is softmax(R1 R2^T) G(X): see `low_rank_synthesizer`.
In the Mesh TensorFlow release, both tables have the axis of the *keys*, so that their product contracts only the rank.
The row "Synthesizer (factorized)" of Narang et al. 2021 ran this code, as its operation count shows. Only masks and the
relative bias then make the outputs of different positions differ; the rest is a weighted mean of the values with one
learned weight per position.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.no_dot_product.factorized_random_synthesizer import released_factorized_random_scores
from attention_research.layers.attention.multi_head import Offset
from attention_research.layers.attention.synthesizer import Synthesizer
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Positive


class FactorizedSynthesizer(Synthesizer):
    """Tables R1 and R2 [rank N max_length], Glorot uniform. Parameters: 2 D N H + 2 rank N max_length."""

    def __init__(self, *, rank: Positive = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        shape = (rank, self.num_heads, self.max_length)
        self.left_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))
        self.right_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

    def scores(self, x: Float[Array, "B T D"], key_length: int, offset: Offset) -> Float[Array, "1 N T S"]:
        """One row of scores per head, repeated for every query."""
        del offset
        left, right = (table[...][..., :key_length].transpose(1, 2, 0) for table in (self.left_table, self.right_table))
        return released_factorized_random_scores(left, right, x.shape[1])
