"""The Synthesizer of the Long Range Arena, Tay et al. 2021 (arXiv 2011.04006): softmax(Q K^T / sqrt(H) + R) V.

The default of its released code adds the random Synthesizer's table R [N T T] (Tay et al. 2020, arXiv 2005.00743,
section 3.2) to the dot products, and so still computes the scores of all pairs. The Synthesizers of Narang et al. 2021
(`synthesizer`) omit the scale and add T5's relative bias.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels import dot_product_attention
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.layers.attention.synthesizer import within
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Positive


class DotSynthesizer(SumOfValues):
    """Dot-product attention plus a learned table R [N max_length max_length], initialized with Glorot uniform.

    A shorter sequence uses the top left corner of the table.
    """

    cost = (None, 2)

    def __init__(self, *, max_length: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        self.max_length = max_length
        self.table = nnx.Param(glorot_uniform(rngs.params(), (self.num_heads, max_length, max_length), jnp.float32))

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Attention with the table as an explicit bias."""
        T = query.shape[1]
        within(T, self.max_length)
        mask = None if real is None else real[:, None, None, :]
        bias = self.table[...][None, :, :T, :T].astype(query.dtype)
        return dot_product_attention(query, key, value, bias, mask, implementation="reference")
