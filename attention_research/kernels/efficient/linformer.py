"""Linformer attention, Wang et al. 2020 (arXiv 2006.04768), equation 7: softmax(Q (E K)^T / sqrt(H)) (F V)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.shapes import check_shapes


def linformer_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    key_projection: Float[Array, "... R S"],
    value_projection: Float[Array, "... R S"],
    *,
    mask: Bool[Array, "B S"] | None = None,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Attention over R projected keys instead of S keys, with time and memory O(T R).

    E and F are [R S], one for all heads, or [K R S], one per head. The paper's sharing modes differ in which of them
    are the same array (none: two arrays [K R S] per layer; headwise: two arrays [R S]; key-value: one; layerwise: one
    for the model). `mask` is True at non-padding keys. It applies *before* the projection, which mixes positions:
    padded keys are 0 and contribute nothing. An example without such keys gives 0. The attention cannot be causal.
    Raises ValueError naming the axis.

    >>> query, key = jnp.ones((1, 3, 2, 4)), jnp.ones((1, 100, 2, 4))
    >>> projection = jnp.ones((8, 100)) / 100  # 100 keys become 8
    >>> linformer_attention(query, key, key, projection, projection).shape
    (1, 3, 2, 4)
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), value=(value, "B S K Hv"))
    S, K = key.shape[1:3]
    for name, projection in (("key_projection", key_projection), ("value_projection", value_projection)):
        if projection.ndim not in (2, 3) or projection.shape[-1] != S:
            raise ValueError(f"{name}: expected [R S] or [N R S] with S = {S}, got shape {list(projection.shape)}")
        if projection.ndim == 3 and projection.shape[0] != K:
            raise ValueError(f"{name}: axis N of [N R S]: expected {K} heads, got {projection.shape[0]}")
    if key_projection.shape[-2] != value_projection.shape[-2]:
        raise ValueError(
            f"value_projection: axis R: expected key_projection's {key_projection.shape[-2]}, "
            f"got {value_projection.shape[-2]}"
        )
    if mask is not None:
        if mask.shape != key.shape[:2]:
            raise ValueError(f"mask: expected [B S] = {list(key.shape[:2])}, got shape {list(mask.shape)}")
        key, value = (jnp.where(mask[:, :, None, None], x, jnp.zeros_like(x)) for x in (key, value))
    return dot_product_attention(query, compress(key, key_projection), compress(value, value_projection), scale=scale)


def compress(x: Float[Array, "B S K H"], projection: Float[Array, "... R S"]) -> Float[Array, "B R K H"]:
    """Applies the projection to the positions. The result has x's dtype.

    >>> x = jnp.arange(4.0).reshape(1, 4, 1, 1)
    >>> projection = jnp.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])  # the mean of each half
    >>> print(compress(x, projection).ravel())
    [0.5 2.5]
    """
    heads = "K" if projection.ndim == 3 else ""
    return jnp.einsum(f"{heads}RS,BSKH->BRKH", projection.astype(x.dtype), x)
