"""T5's relative position bias, Raffel et al. 2020, section 2.1: softmax(Q K^T + b_bucket(j - i)) V, without a scale.

The stack owns one table [buckets N] of scalars, which all of its layers share. Buckets are bidirectional in an encoder
and causal in a decoder. For training with Adam, see `t5_scaled`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.distance_buckets import impossible
from attention_research.errors import ConfigError
from attention_research.kernels.positions import t5_distance_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Offset, Where
from attention_research.signatures import Positive


class T5Bias(nnx.Module):
    """The bias table of a stack, initialized from N(0, 1) times width^-0.5, as in the released code."""

    def __init__(self, *, width: int, num_heads: int, num_buckets: int, max_distance: int, rngs: nnx.Rngs):
        self.max_distance = max_distance
        self.table = nnx.Param(jax.random.normal(rngs.params(), (num_buckets, num_heads), jnp.float32) * width**-0.5)

    def __call__(
        self, query_length: int, key_length: int, offset: Offset, *, bidirectional: bool
    ) -> Float[Array, "N L"]:
        """The bias of queries offset to offset + query_length - 1 and all keys, by distance: [N, T+S-1].

        Raises ConfigError if there is no bucket for an exact distance, or none for a larger one.
        """
        buckets = self.table.shape[0]
        if wrong := impossible(buckets, self.max_distance, bidirectional=bidirectional):
            raise ConfigError(": ".join(wrong))
        return t5_distance_bias(
            self.table[...], query_length, key_length,
            bidirectional=bidirectional, max_distance=self.max_distance, query_offset=offset,
        )  # fmt: skip


class T5Attention(MultiHeadAttention):
    """Unscaled dot products plus the bias of the stack. A variant may set another `scale` (None: 1/sqrt(H))."""

    scale: float | None = 1.0

    def __init__(self, *, num_buckets: Positive = 32, max_distance: Positive = 128, **inherited: Any):
        del num_buckets, max_distance  # they belong to the table of the stack
        super().__init__(**inherited)

    @classmethod
    def owned_by_stack(
        cls, *, width: int, num_heads: int, num_buckets: int, max_distance: int, rngs: nnx.Rngs, **_: Any
    ) -> T5Bias:
        """The bias table, one per stack."""
        return T5Bias(width=width, num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance, rngs=rngs)

    def distance_bias(self, query_length: int, key_length: int, where: Where) -> Float[Array, "N L"]:
        """The bias b, from the table of the stack."""
        return where.shared(query_length, key_length, where.offset, bidirectional=self.bidirectional(where))

    def bidirectional(self, where: Where) -> bool:
        """Whether buckets are bidirectional: not with a causal mask, and not in a decoding step (a traced offset)."""
        return not where.is_causal and isinstance(where.offset, int)
