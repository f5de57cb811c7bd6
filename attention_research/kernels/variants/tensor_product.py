"""Tensor product attention (TPA), Zhang et al. 2025 (arXiv 2501.06425), section 3.1: softmax(Q K^T scale) V with
q_n = (1 / R) sum_r a_rn b_r, and keys and values of the same form.

a_r [N] are factors of the heads, b_r [H] features, both linear in the token. The factors of keys and values have
R (N + H) numbers per token, which are what a cache holds. The ranks of queries, keys and values may differ. Rotary
positions are applied to the features b_r of queries and keys, which is the same as to the products.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def tensor_product_heads(
    factors: Float[Array, "B T R N"], features: Float[Array, "B T R H"]
) -> Float[Array, "B T N H"]:
    """(1 / R) sum_r factors_rn features_r, in float32 and rounded.

    >>> tensor_product_heads(jnp.array([[[[1.0, 2.0]]]]), jnp.array([[[[3.0, 5.0]]]]))[0, 0].tolist()  # rank 1
    [[3.0, 5.0], [6.0, 10.0]]
    """
    R = check_shapes(factors=(factors, "B T R N"), features=(features, "B T R H"))["R"]
    if R < 1:
        raise ValueError("factors: axis R of [B T R N]: expected at least 1, got 0")
    if features.dtype != factors.dtype:
        raise ValueError(f"features: expected the dtype {factors.dtype} of the factors, got {features.dtype}")
    product = einsum("BTRN,BTRH->BTNH", factors, features)
    return (product / jnp.asarray(R, accumulator(factors.dtype))).astype(factors.dtype)


def tensor_product_attention(
    query_factors: Float[Array, "B T R N"],
    query_features: Float[Array, "B T R H"],
    key_factors: Float[Array, "B S P N"],
    key_features: Float[Array, "B S P H"],
    value_factors: Float[Array, "B S Q N"],
    value_features: Float[Array, "B S Q Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` of queries, keys and values that are given by their factors.

    The ranks are R for queries, P for keys, Q for values. Query i is at position i + `query_offset` of the keys. Raises
    ValueError naming the argument and the axis.

    >>> shape = lambda *sizes: jnp.ones((1, 5, *sizes))
    >>> cached = shape(2, 4), shape(2, 8), shape(2, 4), shape(2, 8)  # 2 (4 + 8) numbers for keys, and for values
    >>> tensor_product_attention(shape(6, 4), shape(6, 8), *cached).shape
    (1, 5, 4, 8)
    """
    check_shapes(
        query_factors=(query_factors, "B T R N"), query_features=(query_features, "B T R H"),
        key_factors=(key_factors, "B S P N"), key_features=(key_features, "B S P H"),
        value_factors=(value_factors, "B S Q N"), value_features=(value_features, "B S Q Hv"),
    )  # fmt: skip
    return dot_product_attention(
        tensor_product_heads(query_factors, query_features), tensor_product_heads(key_factors, key_features),
        tensor_product_heads(value_factors, value_features), mask=mask, scale=scale, is_causal=is_causal,
        query_offset=query_offset, implementation=implementation,
    )  # fmt: skip
