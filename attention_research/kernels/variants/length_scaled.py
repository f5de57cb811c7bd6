"""Scalable-Softmax attention (SSMax), Nakanishi 2025 (arXiv 2501.19399): softmax(s_N log n_i Q K^T scale) V.

n_i is the number of keys that query i may attend to, and s_N a learned factor of each head. The logits grow with n_i,
so that the largest weight does not vanish in a long context. In causal attention n_i is i + 1; with padding or packed
examples it is counted in the mask. The factor is applied to the query. A query with one key attends to it.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.attention.pairs import visible_counts
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def length_scaled_query(
    query: Float[Array, "B T N H"],
    factor: Float[Array, "#N"],
    key_length: int,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
) -> Float[Array, "B T N H"]:
    """query factor_n log n_i, where n_i counts the keys that `mask` and causality leave to query i.

    >>> scaled = length_scaled_query(jnp.ones((1, 3, 1, 1)), jnp.ones(1), 3, is_causal=True)
    >>> print(scaled[0, :, 0, 0])  # log 1, log 2, log 3
    [0.   0.69 1.1 ]
    """
    check_shapes(query=(query, "B T N H"), factor=(factor, "#N"), mask=(mask, "#B #N #T #S"))
    counts = visible_counts(query.shape[1], key_length, mask, is_causal=is_causal, query_offset=query_offset)
    dtype = accumulator(query.dtype)
    logs = jnp.log(jnp.maximum(counts, 1).astype(dtype))
    scales = (logs * factor.astype(dtype)[:, None]).swapaxes(1, 2)[..., None]
    return (query.astype(dtype) * scales).astype(query.dtype)


def length_scaled_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    factor: Float[Array, "#N"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` with logits times factor_n log n_i.

    `factor` is [N] or [1]. Query i is at position i + `query_offset` of the keys. Raises ValueError naming the argument
    and the axis.

    >>> x, value = jnp.array([0.0, 1.0]).reshape(1, 2, 1, 1), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(length_scaled_attention(x, x, value, jnp.array([2.0]))[0, 1, 0])  # 2^-2 to 1
    [0.2 0.8]
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), mask=(mask, "#B #N #T #S"))
    query = length_scaled_query(
        query, factor, key.shape[1], mask, is_causal=is_causal, query_offset=query_offset
    )  # fmt: skip
    return dot_product_attention(
        query, key, value, mask=mask, scale=scale, is_causal=is_causal, query_offset=query_offset,
        implementation=implementation,
    )  # fmt: skip
