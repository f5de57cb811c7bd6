"""Rotary position embedding, Su et al. 2021 (arXiv 2104.09864), equation 16: softmax((R_i q_i)^T (R_j k_j) / sqrt(H)).

R_p rotates each pair of a head's features by p times the frequency of the pair (`kernels.rotary`). Values are not
rotated. Scores depend on positions only through the distance i - j. It has no parameters.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels import rotary
from attention_research.layers.attention.multi_head import Keys, Queries, Where
from attention_research.layers.attention.normalized_heads import NormalizedHeads
from attention_research.signatures import PositiveFloat


class RotaryAttention(NormalizedHeads):
    """Scaled dot-product attention of rotated queries and keys. `base` determines the lowest frequency.

    A cache holds keys before the rotation, and each decoding step rotates all of them. Raises ConfigError if
    `head_width` is odd.
    """

    def __init__(self, *, base: PositiveFloat = 10000.0, **inherited: Any):
        super().__init__(**inherited)
        expect_even(self.head_width, "rotary attention")
        self.base = base

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys. The first query is at position `where.offset`."""
        return *rotated(query, key, where, self.base), value


def expect_even(head_width: int, kind: str) -> None:
    """Raises ConfigError if the width of a head is odd."""
    if head_width % 2:
        raise ConfigError(f"head_width: {head_width}; {kind} expects an even number")


def rotated(query: Queries, key: Keys, where: Where, base: float) -> tuple[Queries, Keys]:
    """(rotated queries, rotated keys) at the positions that `where` gives them."""
    query = rotary(query, where.query_positions(query.shape[1]), base=base)
    return query, rotary(key, where.key_positions(key.shape[1]), base=base)
