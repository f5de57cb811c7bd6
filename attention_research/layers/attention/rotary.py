"""Rotary position embedding, Su et al. 2021 (arXiv 2104.09864), equation 16: softmax((R_i q_i)^T (R_j k_j) / sqrt(H)).

R_p rotates each pair of a head's features by p times the frequency of the pair (`kernels.rotary`). Values are not
rotated. Scores depend on positions only through the distance i - j. It has no parameters.
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
    """Scaled dot-product attention of rotated queries and keys. `base` determines the lowest frequency.

    A cache holds keys before the rotation, and each decoding step rotates all of them. Raises ConfigError if
    `head_width` is odd.
    """

    def __init__(self, *, base: PositiveFloat = 10000.0, **inherited: Any):
        super().__init__(**inherited)
        if self.head_width % 2:
            raise ConfigError(f"head_width: {self.head_width}; rotary attention expects an even number")
        self.base = base

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys. The first query is at position `where.offset`."""
        turn = lambda x, first: rotary(x, first + jnp.arange(x.shape[1], dtype=jnp.int32), base=self.base)
        return turn(query, where.offset), turn(key, 0), value
