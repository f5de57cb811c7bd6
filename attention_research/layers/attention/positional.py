"""Positions added to queries, keys and values in every layer, after Carion et al. 2020 (arXiv 2005.12872), section 3.2:
softmax((q_i + p_i)^T (k_j + p_j) / sqrt(H)) (v_j + p_j).

p is the sinusoid of a head's width, the same for every head. (The paper, which reads images, adds it to queries and
keys alone.) Nothing is added to the embeddings: take it with no positions there.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import attention_weights, dot_product_attention, sinusoidal_positions
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.registry import Positive


class PositionalAttention(MultiHeadAttention):
    """No parameters beside the projections; positions stay below `max_length`. A cache holds keys and values as they
    were projected, and a step adds their positions to all of them."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        max_length: Positive,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, value_head_width=value_head_width,
            use_bias=use_bias, rngs=rngs,
        )  # fmt: skip
        self.max_length = max_length

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        mask: Any = None,
        is_causal: bool = False,
        offset: Any = 0,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """The equation above, the first query at position `offset`."""
        del shared

        def placed(x: Array, first: Any) -> Array:
            places = first + jnp.arange(x.shape[1], dtype=jnp.int32)
            return x + sinusoidal_positions(self.max_length, x.shape[3])[places][:, None].astype(x.dtype)

        query, key, value = placed(query, offset), placed(key, 0), placed(value, 0)
        where = {"mask": mask, "is_causal": is_causal}
        return dot_product_attention(query, key, value, **where), attention_weights(query, key, **where)
