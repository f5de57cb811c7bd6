"""Learned attention sinks, OpenAI 2025 (arXiv 2508.10925): exp(l_ij) / (exp(sink_n) + sum_j exp(l_ij)), then times V.

The sink is an additional logit per head, without a key and with the value 0 (gpt-oss), so that the weights of a head
can be near 0. A sink of 0 gives the "softmax off by one", and a sink of -inf the softmax. For attention sinks that are
tokens, see `streaming_attention`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale, softmax_or_zero
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.variants.row_blocks import attend_by_rows


def sink_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    sink: Float[Array, "#N"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """Attention with exp(sink_n) in the denominator of the softmax, with memory linear in the keys.

    `block_size` queries are computed at a time. `sink` is [N] or [1], in the units of the scaled logits. Other
    arguments are those of `dot_product_attention`. A query with no visible key gives 0 with gradient 0. Raises
    ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 2, 1, 2)), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(sink_attention(x, x, value, jnp.array([0.0]))[0, :, 0])  # the sink takes the rest
    [[0.33 0.33]
     [0.33 0.33]]
    """
    check_shapes(query=(query, "B T N H"), sink=(sink, "#N"))

    def weigh(logits: Array, visible: Array | None) -> Array:
        if visible is not None:
            logits = jnp.where(visible, logits, -jnp.inf)
        column = jnp.broadcast_to(sink.astype(logits.dtype)[:, None, None], (*logits.shape[:-1], 1))
        return softmax_or_zero(jnp.concatenate([logits, column], axis=-1))[..., :-1]

    return attend_by_rows(
        query, key, value, mask, weigh, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        block_size=block_size,
    )  # fmt: skip
