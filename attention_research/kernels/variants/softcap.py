"""Logit soft-capping, Gemma Team 2024 (arXiv 2408.00118), section 2: softmax(cap tanh(Q K^T scale / cap)) V.

The magnitude of the logits is at most the cap (50 in Gemma 2). The mask is applied after the cap, so that masked keys
stay masked.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.variants.row_blocks import attend_by_rows


def softcap_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    cap: float | int,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """Attention with capped logits, with memory linear in the keys.

    `block_size` queries are computed at a time. Other arguments are those of `dot_product_attention`. A query with no
    visible key gives 0 with gradient 0. Raises ValueError naming the argument and the axis, and if cap is not above 0.

    >>> query, value = jnp.array([1000.0]).reshape(1, 1, 1, 1), jnp.eye(2)[None, :, None]
    >>> key = jnp.array([0.0, 1.0]).reshape(1, 2, 1, 1)
    >>> print(softcap_attention(query, key, value, cap=1.0))  # softmax(0, 1): no score is above the cap
    [[[[0.27 0.73]]]]
    """
    if cap <= 0:
        raise ValueError(f"cap: expected more than 0, got {cap}")

    def weigh(logits: Array, visible: Array | None) -> Array:
        limit = jnp.asarray(cap, logits.dtype)
        return softmax_or_zero(limit * jnp.tanh(logits / limit), visible)

    return attend_by_rows(
        query, key, value, mask, weigh, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        block_size=block_size,
    )  # fmt: skip
