"""Rotary position embedding, Su et al. 2021 (arXiv 2104.09864), equation 16: softmax((R_i q_i)^T (R_j k_j) / sqrt(H)).

R_p turns each pair of a head's features by p times the pair's frequency (`kernels.rotary`); values are not turned. No
parameters. Only the distance i - j of a query and a key reaches the scores.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels import rotary
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import PositiveFloat


class RotaryAttention(MultiHeadAttention):
    """Scaled dot products of turned queries and keys; `base` sets the slowest frequency. A cache holds keys as they
    were projected, and a step turns them all. Raises ConfigError for an odd head_width."""

    def __init__(self, *, base: PositiveFloat = 10000.0, **inherited: Any):
        super().__init__(**inherited)
        if self.head_width % 2:
            raise ConfigError(f"head_width: {self.head_width}; rotary attention turns pairs of features, so it is even")
        self.base = base

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Queries and keys turned, the first query's position being `where.offset`."""
        turn = lambda x, first: rotary(x, first + jnp.arange(x.shape[1], dtype=jnp.int32), base=self.base)
        return turn(query, where.offset), turn(key, 0), value
