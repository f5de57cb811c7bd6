"""T5's relative position bias, Raffel et al. 2020, section 2.1: softmax(Q K^T + b_bucket(j - i)) V, no scale.

One table [buckets N] of scalars, shared by all layers of a stack, which owns it; bidirectional in an encoder, causal
buckets in a decoder.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.kernels import attention_weights, dot_product_attention, t5_distance_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.registry import Positive


class T5Bias(nnx.Module):
    """The table of a stack: N(0, 1) scaled by width^-0.5, as the released code initialises it."""

    def __init__(self, *, width: int, num_heads: int, num_buckets: int, max_distance: int, rngs: nnx.Rngs):
        self.max_distance = max_distance
        self.table = nnx.Param(jax.random.normal(rngs.params(), (num_buckets, num_heads), jnp.float32) * width**-0.5)

    def __call__(
        self, query_length: int, key_length: int, offset: Int[Array, ""] | int, *, bidirectional: bool
    ) -> Float[Array, "N L"]:
        """The bias of queries offset .. offset + query_length - 1 against all keys, by distance: [N, T+S-1]."""
        return t5_distance_bias(
            self.table[...], query_length, key_length,
            bidirectional=bidirectional, max_distance=self.max_distance, query_offset=offset,
        )  # fmt: skip


class T5Attention(MultiHeadAttention):
    """Unscaled dot products plus the stack's bias; a variant may have another `scale` (None: 1/sqrt(H))."""

    scale: float | None = 1.0

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        num_buckets: Positive = 32,
        max_distance: Positive = 128,
        rngs: nnx.Rngs,
    ):
        del num_buckets, max_distance  # the stack's table has them
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, value_head_width=value_head_width,
            use_bias=use_bias, rngs=rngs,
        )  # fmt: skip

    @classmethod
    def owned_by_stack(
        cls, *, width: int, num_heads: int, num_buckets: int, max_distance: int, rngs: nnx.Rngs, **_: Any
    ) -> T5Bias:
        """The bias table, one a stack."""
        return T5Bias(width=width, num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance, rngs=rngs)

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        mask: Any = None,
        is_causal: bool = False,
        offset: Any = 0,
        shared: T5Bias,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """softmax(Q K^T + b) V."""
        two_sided = self.bidirectional(is_causal, offset)
        bias = shared(query.shape[1], key.shape[1], offset, bidirectional=two_sided)
        where = {"mask": mask, "is_causal": is_causal, "scale": self.scale, "distance_bias": bias}
        return dot_product_attention(query, key, value, **where), attention_weights(query, key, **where)

    def bidirectional(self, is_causal: bool, offset: Int[Array, ""] | int) -> bool:
        """Whether buckets are for both directions: not under a causal mask, nor in a step of decoding (a traced
        offset)."""
        return not is_causal and isinstance(offset, int)
