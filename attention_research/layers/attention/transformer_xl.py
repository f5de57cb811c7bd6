"""Transformer-XL attention, Dai et al. 2019 (arXiv 1901.02860), section 3.3: (q_i + u)^T k_j + (q_i + v)^T r_{i-j}.

r_d = W_R R_d, where R_d is the sinusoidal encoding of the distance d. u and v are vectors per head, initialized from
N(0, 0.02^2) as in the released code. The attention is causal. `transformer_xl_memory` has the memory of the segment
before.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels import sinusoidal_positions, transformer_xl_attention
from attention_research.kernels.positions import transformer_xl_weights
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class TransformerXLAttention(MultiHeadAttention):
    """Relative attention by content and distance, with the projection W_R [D, N*H] of the distances."""

    def __init__(self, *, width: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.relative = Linear(width, self.num_heads * self.head_width, use_bias=False, rngs=rngs)
        shape = (self.num_heads, self.head_width)
        vector = lambda: nnx.Param(0.02 * jax.random.normal(rngs.params(), shape, jnp.float32))
        self.content_bias, self.position_bias = vector(), vector()

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """The equation, with the distances of all keys."""
        arrays, first = self.distances(key.shape[1], query.dtype), where.offset
        given: dict[str, Any] = {"mask": where.mask, "query_offset": None if isinstance(first, int) else first}
        context = transformer_xl_attention(query, key, value, *arrays, **given)
        return context, transformer_xl_weights(query, key, *arrays, **given)

    def distances(self, count: int, dtype: Any) -> tuple[Array, Array, Array]:
        """(r [S N H] for the distances 0 to S - 1, u, v)."""
        distances = sinusoidal_positions(count, self.relative.kernel[...].shape[0]).astype(dtype)
        relative = self.relative(distances).reshape(count, self.num_heads, self.head_width)
        return relative, self.content_bias[...], self.position_bias[...]
