"""Factorized random Synthesizer as written, Tay et al. 2020 (arXiv 2005.00743), section 3.3: softmax(R1 R2^T) G(X).

scores_nij = sum_r R1_rni R2_rnj: a random Synthesizer whose table has rank R. The release computes
`factorized_synthesizer` instead, which has parameters of the same shapes.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float

from attention_research.kernels import factorized_random_scores
from attention_research.layers.attention.factorized_synthesizer import FactorizedSynthesizer
from attention_research.layers.attention.multi_head import Offset


class LowRankSynthesizer(FactorizedSynthesizer):
    """The low-rank random Synthesizer. R1 is indexed by query positions, R2 by key positions."""

    def scores(self, x: Float[Array, "B T D"], key_length: int, offset: Offset) -> Float[Array, "1 N T S"]:
        """Rows offset to offset + T - 1 of R1 R2^T."""
        left = jax.lax.dynamic_slice_in_dim(self.left_table[...], offset, x.shape[1], 2)
        right = self.right_table[...][..., :key_length]
        return factorized_random_scores(left.transpose(1, 2, 0), right.transpose(1, 2, 0))
