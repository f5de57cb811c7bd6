"""Attention with a temperature by position, Meta AI 2025 (Llama 4):
softmax((1 + a log(1 + floor(n_i / L))) Q K^T scale) V.

n_i is the number of keys that query i may attend to, i + 1 in causal attention. Up to L keys the attention is plain;
then the logits grow slowly, so that the weights of a long context stay sharp. Llama 4 does so in its layers without
rotary positions, with a = 0.1 and L = 8192. The factor is applied to the query. There are no parameters; for a learned
factor of log n_i, see `length_scaled_attention`.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.attention.pairs import visible_counts
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def position_scaled_query(
    query: Float[Array, "B T N H"],
    key_length: int,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    interval: int = 8192,
    strength: float = 0.1,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B T N H"]:
    """query (1 + strength log(1 + floor(n_i / interval))), where n_i counts the keys that `mask` and causality leave.

    >>> scaled = position_scaled_query(jnp.ones((1, 4, 1, 1)), 4, interval=2, strength=1.0, is_causal=True)
    >>> print(scaled[0, :, 0, 0])  # 1, then 1 + log 2, then 1 + log 3
    [1.   1.69 1.69 2.1 ]
    """
    if interval < 1:
        raise ValueError(f"interval: expected at least 1, got {interval}")
    check_shapes(query=(query, "B T N H"), mask=(mask, "#B #N #T #S"))
    counts = visible_counts(query.shape[1], key_length, mask, is_causal=is_causal, query_offset=query_offset)
    dtype = accumulator(query.dtype)
    factor = 1 + jnp.asarray(strength, dtype) * jnp.log1p((counts // interval).astype(dtype))
    return (query.astype(dtype) * factor.swapaxes(1, 2)[..., None]).astype(query.dtype)


def position_scaled_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    interval: int = 8192,
    strength: float = 0.1,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` of queries that `position_scaled_query` scales.

    Query i is at position i + `query_offset` of the keys. Raises ValueError naming the argument and the axis.

    >>> x, value = jnp.array([0.0, 1.0]).reshape(1, 2, 1, 1), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(position_scaled_attention(x, x, value, interval=1, strength=1.0)[0, 1, 0])  # logits times 1 + log 3
    [0.11 0.89]
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), mask=(mask, "#B #N #T #S"))
    query = position_scaled_query(
        query, key.shape[1], mask, interval=interval, strength=strength, is_causal=is_causal,
        query_offset=query_offset,
    )  # fmt: skip
    return dot_product_attention(
        query, key, value, mask=mask, scale=scale, is_causal=is_causal, query_offset=query_offset,
        implementation=implementation,
    )  # fmt: skip
