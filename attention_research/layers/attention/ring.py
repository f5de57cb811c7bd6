"""Ring attention, Liu et al. 2023 (arXiv 2310.01889): dot-product attention over a sequence sharded over devices.

The sequence is sharded over the mesh's `sequence` axis. Devices pass keys and values around a ring and keep their
queries.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array

from attention_research.kernels import attention_weights, dot_product_attention, ring_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.parallel.rules import SEQUENCE
from attention_research.parallel.scope import axis_size, over_axes


class RingAttention(MultiHeadAttention):
    """Computes the same function as `standard`, sharded over the sequence.

    If `parallel.mesh.sequence` is 1, and in decoding steps, it runs the same program as `standard`. It takes only masks
    of non-padding keys, [B 1 1 S], and raises ValueError for packed batches.
    """

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Softmax over the keys of all devices in the ring."""
        mask, is_causal = where.mask, where.is_causal
        visible: dict[str, Any] = {"mask": mask, "is_causal": is_causal}
        weights = attention_weights(query, key, **visible)
        if axis_size(SEQUENCE) == 1 or query.shape[1] == 1:
            return dot_product_attention(query, key, value, **visible), weights
        if mask is not None and mask.shape[1:3] != (1, 1):
            raise ValueError(f"mask: ring attention expects a key mask [B 1 1 S], got {list(mask.shape)}")

        def share(query: Array, key: Array, value: Array, mask: Array | None) -> Array:
            return ring_attention(query, key, value, axis_name=SEQUENCE, is_causal=is_causal, mask=mask)

        keys = None if mask is None else jnp.broadcast_to(mask[:, 0, 0], key.shape[:2])
        return over_axes(share, *(PartitionSpec(None, SEQUENCE),) * 4)(query, key, value, keys), weights
