"""Stick-breaking attention, Tan et al. 2024 (arXiv 2410.17980): A_ij = beta_ij prod_{j<m<i} (1 - beta_im)
with beta = sigmoid(Q K^T scale), for keys j before query i, then times V.

A query goes back from the nearest key. Each key takes the share beta of what is left, so that the order of the keys
matters without position encodings. The weights sum to at most 1. The products are computed as sums of logarithms:
log A_ij = log sigmoid(z_ij) - sum_{j<m<i} softplus(z_im), in which keys that are not visible have no part. The first
query sees no key and gives 0; with `attend_current`, a query's own key is the first.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.integers import as_int32
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.variants.row_blocks import attend_by_rows


def stick_breaking_weights(
    logits: Float[Array, "*B S"], visible: Bool[Array, "..."] | None = None
) -> Float[Array, "*B S"]:
    """The weights of the visible keys, of which the last one takes its share first.

    >>> print(stick_breaking_weights(jnp.zeros(3)))
    [0.12 0.25 0.5 ]
    """
    left = -jax.nn.softplus(logits)
    if visible is not None:
        left = jnp.where(visible, left, jnp.zeros_like(left))
    after = lax.cumsum(left, axis=logits.ndim - 1, reverse=True)[..., 1:]
    after = jnp.pad(after, [(0, 0)] * (logits.ndim - 1) + [(0, min(1, logits.shape[-1]))])
    weights = jnp.exp(jax.nn.log_sigmoid(logits) + after)
    return weights if visible is None else jnp.where(visible, weights, jnp.zeros_like(weights))


def stick_breaking_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    attend_current: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """Causal attention with stick-breaking weights, with memory linear in the keys.

    Query i is at position i + `query_offset` of the keys. `block_size` queries are computed at a time. Other arguments
    are those of `dot_product_attention`. A query with no visible key gives 0 with gradient 0. Raises ValueError naming
    the argument and the axis.

    >>> x, value = jnp.zeros((1, 3, 1, 1)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> print(stick_breaking_attention(x, x, value)[0, :, 0])
    [[0.   0.   0.  ]
     [0.5  0.   0.  ]
     [0.25 0.5  0.  ]]
    """
    if not isinstance(query_offset, int):
        query_offset = as_int32("query_offset", query_offset)
        check_shapes(query_offset=(query_offset, ""))
    return attend_by_rows(
        query, key, value, mask, stick_breaking_weights, scale=scale, is_causal=True, local_window_size=None,
        query_offset=query_offset if attend_current else query_offset - 1, block_size=block_size,
    )  # fmt: skip
