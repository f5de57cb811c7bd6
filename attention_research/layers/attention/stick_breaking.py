"""Stick-breaking attention, Tan et al. 2024 (arXiv 2410.17980): A_ij = beta_ij prod_{j<m<i} (1 - beta_im), times V.

beta is the sigmoid of the scores. A query goes back from the nearest key, and each key takes its share of what is left
(`kernels.stick_breaking_attention`). It knows the order of the keys without position encodings. It has no parameters.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array

from attention_research.kernels.attention.pairs import visible_pairs
from attention_research.kernels.variants import stick_breaking_weights
from attention_research.layers.attention.multi_head import Mask, MultiHeadAttention, Where


class StickBreakingAttention(MultiHeadAttention):
    """Causal attention with stick-breaking weights, for decoders.

    `attend_current` lets a query see its own key, too; without it, the first position gives 0.
    """

    def __init__(self, *, attend_current: bool = False, **inherited: Any):
        super().__init__(**inherited)
        self.attend_current = attend_current

    def visible(self, query: Array, key: Array, where: Where) -> Mask:
        """The keys before each query."""
        first = where.offset if self.attend_current else where.offset - 1
        return visible_pairs(query.shape[1], key.shape[1], None, is_causal=True, query_offset=first)

    def weigh(self, scores: Array, visible: Array | None) -> Array:
        """The shares of the visible keys."""
        return stick_breaking_weights(scores, visible)
