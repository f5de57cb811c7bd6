"""Rotary position embedding, Su et al. 2021 (arXiv 2104.09864), equation 16: softmax((R_i q_i)^T (R_j k_j) / sqrt(H)).

R_p turns each pair of a head's features by p times the pair's frequency (`kernels.rotary`); values are not turned. No
parameters. Only the distance i - j of a query and a key reaches the scores.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.errors import ConfigError
from attention_research.kernels import attention_weights, dot_product_attention, rotary
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.registry import Positive, PositiveFloat


class RotaryAttention(MultiHeadAttention):
    """Scaled dot products of turned queries and keys; `base` sets the slowest frequency. A cache holds keys as they
    were projected, and a step turns them all. Raises ConfigError for an odd head_width."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        base: PositiveFloat = 10000.0,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, value_head_width=value_head_width,
            use_bias=use_bias, rngs=rngs,
        )  # fmt: skip
        if self.head_width % 2:
            raise ConfigError(f"head_width: {self.head_width}; rotary attention turns pairs of features, so it is even")
        self.base = base

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
        """Equation 16."""
        del shared
        turn = lambda x, first: rotary(x, first + jnp.arange(x.shape[1], dtype=jnp.int32), base=self.base)
        query, key = turn(query, offset), turn(key, 0)
        where = {"mask": mask, "is_causal": is_causal}
        return dot_product_attention(query, key, value, **where), attention_weights(query, key, **where)
