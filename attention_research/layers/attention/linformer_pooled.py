"""Linformer with pooled keys and values, Wang et al. 2020 (arXiv 2006.04768), section 4: softmax(Q pool(K)^T) pool(V).

A cell holds the mean or the maximum of W consecutive positions. W is fixed, so that more padding does not change the
result: a sequence of S positions has S / W cells, the k of the paper. There are no parameters besides the projections.
"""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.efficient import pooled_linformer_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where, keys_alone, weights_of
from attention_research.signatures import Positive


class PooledLinformerAttention(MultiHeadAttention):
    """Attention to cells of `cell_width` W positions. `pooling` is mean or max, of each feature separately.

    The weights of positions are reported for the mean only: a maximum is not a weighted sum of positions.
    """

    cost = (None, 2)

    def __init__(self, *, cell_width: Positive, pooling: Literal["mean", "max"] = "mean", **inherited: Any):
        super().__init__(**inherited)
        self.cell_width, self.pooling = cell_width, pooling

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Any]:
        """The equation. Raises ValueError if the mask is not a key mask."""
        real, length = keys_alone(where, "Linformer"), key.shape[1]
        cells = -(-length // self.cell_width)
        rest = cells * self.cell_width - length
        whole = lambda x: jnp.pad(x, [(0, 0), (0, rest), *[(0, 0)] * (x.ndim - 2)])
        mask = whole(jnp.ones(key.shape[:2], bool) if real is None else jnp.broadcast_to(real, key.shape[:2]))

        def attend(value: Array) -> Array:
            return pooled_linformer_attention(
                query, whole(key), whole(value), rank=cells, pooling=self.pooling, mask=mask
            )

        return attend(value), weights_of(attend, key, value.dtype) if self.pooling == "mean" else None

    def _aux(self, key: Array, value: Array, weights: Any) -> dict[str, Any]:
        return {} if weights is None else super()._aux(key, value, weights)
