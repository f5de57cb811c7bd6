"""Linformer with pooled keys and values, Wang et al. 2020 (arXiv 2006.04768), section 4: softmax(Q pool(K)^T) pool(V).

Each of at most R cells holds the mean or the maximum of consecutive positions. There are no parameters besides the
projections.
"""

from __future__ import annotations

from typing import Any, Literal

from jaxtyping import Array

from attention_research.kernels.efficient import pooled_linformer_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where, keys_alone, weights_of
from attention_research.signatures import Positive


class PooledLinformerAttention(MultiHeadAttention):
    """Attention to at most `rank` cells. `pooling` is mean or max, of each feature separately.

    The weights of positions are reported for the mean only: a maximum is not a weighted sum of positions.
    """

    cost = (None, 1)

    def __init__(self, *, rank: Positive, pooling: Literal["mean", "max"] = "mean", **inherited: Any):
        super().__init__(**inherited)
        self.rank, self.pooling = rank, pooling

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Any]:
        """The equation. Raises ValueError if the mask is not a key mask."""
        real = keys_alone(where, "Linformer")

        def attend(value: Array) -> Array:
            return pooled_linformer_attention(query, key, value, rank=self.rank, pooling=self.pooling, mask=real)

        return attend(value), weights_of(attend, key, value.dtype) if self.pooling == "mean" else None

    def _aux(self, key: Array, value: Array, weights: Any) -> dict[str, Any]:
        return {} if weights is None else super()._aux(key, value, weights)
