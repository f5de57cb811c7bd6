"""A learned bias for each clipped distance, Ontanon et al. 2021 (arXiv 2108.04378), the variants "rel-b" and "rel-eb".

`RelativeBiasAttention` is softmax(Q K^T / sqrt(H) + b_clip(j-i)) V. `RelativeKeysBiasAttention` also adds Shaw et al.'s
vectors to the keys: e_ij = q_i (k_j + a_clip(j-i))^T / sqrt(H) + b_clip(j-i). Each layer has its own tables, and each
head its own biases, which start at 0. As `cross_relative_bias` and `cross_relative_keys_bias` (the paper's "rel2"), the
distance is that from the position of the target token to that of the source token, both counted from 0.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.positions import clipped_distance_bias
from attention_research.kernels.positions.relative import relative_logits
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.linear import glorot_uniform
from attention_research.signatures import Positive


class RelativeBiasAttention(MultiHeadAttention):
    """A table [2k+1 N] of biases, where k is `max_distance`."""

    takes_offset = True

    def __init__(self, *, max_distance: Positive = 16, **inherited: Any):
        super().__init__(**inherited)
        self.distance_table = nnx.Param(jnp.zeros((2 * max_distance + 1, self.num_heads), jnp.float32))

    def distance_bias(self, query_length: int, key_length: int, where: Where) -> Float[Array, "N L"]:
        """The biases b of the heads."""
        return clipped_distance_bias(self.distance_table[...], query_length, key_length, query_offset=where.offset)


class RelativeKeysBiasAttention(RelativeBiasAttention):
    """Tables [2k+1 N] of biases and [2k+1 H] of vectors for keys, where k is `max_distance`."""

    def __init__(self, *, max_distance: Positive = 16, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(max_distance=max_distance, rngs=rngs, **inherited)
        shape = (2 * max_distance + 1, self.head_width)
        self.key_table = nnx.Param(glorot_uniform(rngs.params(), shape, jnp.float32))

    def bias(self, query: Array, key: Array, where: Where) -> Float[Array, "B N T S"]:
        """q_i a_clip(j-i)^T / sqrt(H)."""
        return relative_logits(query, self.key_table[...], key.shape[1], query_offset=where.offset)
