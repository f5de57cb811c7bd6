"""T5's relative position bias, Raffel et al. 2020, section 2.1: softmax(Q K^T + b_bucket(j - i)) V, no scale.

One table [buckets N] of scalars, shared by all layers of a stack, which owns it; bidirectional in an encoder, causal
buckets in a decoder.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.positions import t5_distance_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Offset, Where
from attention_research.signatures import Positive


class T5Bias(nnx.Module):
    """The table of a stack: N(0, 1) scaled by width^-0.5, as the released code initialises it."""

    def __init__(self, *, width: int, num_heads: int, num_buckets: int, max_distance: int, rngs: nnx.Rngs):
        self.max_distance = max_distance
        self.table = nnx.Param(jax.random.normal(rngs.params(), (num_buckets, num_heads), jnp.float32) * width**-0.5)

    def __call__(
        self, query_length: int, key_length: int, offset: Offset, *, bidirectional: bool
    ) -> Float[Array, "N L"]:
        """The bias of queries offset .. offset + query_length - 1 against all keys, by distance: [N, T+S-1]."""
        return t5_distance_bias(
            self.table[...], query_length, key_length,
            bidirectional=bidirectional, max_distance=self.max_distance, query_offset=offset,
        )  # fmt: skip


class T5Attention(MultiHeadAttention):
    """Unscaled dot products plus the stack's bias; a variant may have another `scale` (None: 1/sqrt(H))."""

    scale: float | None = 1.0

    def __init__(self, *, num_buckets: Positive = 32, max_distance: Positive = 128, **inherited: Any):
        del num_buckets, max_distance  # the stack's table has them
        super().__init__(**inherited)

    @classmethod
    def owned_by_stack(
        cls, *, width: int, num_heads: int, num_buckets: int, max_distance: int, rngs: nnx.Rngs, **_: Any
    ) -> T5Bias:
        """The bias table, one a stack."""
        return T5Bias(width=width, num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance, rngs=rngs)

    def distance_bias(self, query_length: int, key_length: int, where: Where) -> Float[Array, "N L"]:
        """b, from the stack's table."""
        return where.shared(query_length, key_length, where.offset, bidirectional=self.bidirectional(where))

    def bidirectional(self, where: Where) -> bool:
        """Whether buckets are for both directions: not under a causal mask, nor in a step of decoding (a traced
        offset)."""
        return not where.is_causal and isinstance(where.offset, int)
