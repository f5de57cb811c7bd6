"""Multi-head latent attention, DeepSeek-AI 2024 (arXiv 2405.04434), equations 9 to 18:
softmax((q_n W^K_n c^T + r_n p^T) scale) c W^V_n.

The keys and values of all heads are computed from one latent vector c_j [R] per position. Position information comes
from a second part of the query, r_n [P], and a key p_j [P] that all heads share, both already rotated. (This is
decoupled rotary: with a rotation between the query and W^K, the absorbed form would not be possible.) The cache holds
R + P numbers per position. The scale is 1 / sqrt(H + P). The projections to q, r, c (with its root mean square norm)
and p belong to the layer.

There are two forms with the same result. `latent_attention` computes the keys and values of all heads, for training.
`absorbed_latent_attention` multiplies W^K into the query and W^V into the output, and attends to the latent vectors as
multi-query attention of width R + P, for decoding from the cache.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def latent_attention(
    query: Float[Array, "B T N H"],
    rotated_query: Float[Array, "B T N P"],
    latent: Float[Array, "B S R"],
    rotated_key: Float[Array, "B S P"],
    key_weight: Float[Array, "R N H"],
    value_weight: Float[Array, "R N Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Attention with the keys [c W^K_n, p] and the values c W^V_n, computed for every head.

    Other arguments are those of `dot_product_attention`. Raises ValueError naming the argument and the axis.

    >>> query, rotated_query = jnp.ones((1, 5, 4, 8)), jnp.ones((1, 5, 4, 2))
    >>> latent, rotated_key = jnp.ones((1, 5, 3)), jnp.ones((1, 5, 2))  # all that a cache keeps: 5 numbers a token
    >>> weight = jnp.ones((3, 4, 8))
    >>> latent_attention(query, rotated_query, latent, rotated_key, weight, weight).shape
    (1, 5, 4, 8)
    """
    scale = _check(query, rotated_query, latent, rotated_key, key_weight, value_weight, scale)
    key = einsum("BSR,RNH->BSNH", latent, key_weight.astype(latent.dtype)).astype(latent.dtype)
    value = einsum("BSR,RNH->BSNH", latent, value_weight.astype(latent.dtype)).astype(latent.dtype)
    shared = jnp.broadcast_to(rotated_key[:, :, None], (*key.shape[:3], rotated_key.shape[-1]))
    return dot_product_attention(
        jnp.concatenate([query, rotated_query], axis=-1), jnp.concatenate([key, shared], axis=-1), value, mask=mask,
        scale=scale, is_causal=is_causal, implementation=implementation,
    )  # fmt: skip


def absorbed_latent_attention(
    query: Float[Array, "B T N H"],
    rotated_query: Float[Array, "B T N P"],
    latent: Float[Array, "B S R"],
    rotated_key: Float[Array, "B S P"],
    key_weight: Float[Array, "R N H"],
    value_weight: Float[Array, "R N Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`latent_attention` in absorbed form: the queries q W^K_n attend to the latent vectors, and W^V_n is applied last.

    In decoding, `latent` and `rotated_key` are the cache, and `mask` is True at its filled positions. Raises ValueError
    naming the argument and the axis.

    >>> query, rotated_query = jnp.ones((1, 1, 4, 8)), jnp.ones((1, 1, 4, 2))
    >>> latent, rotated_key, weight = jnp.ones((1, 5, 3)), jnp.ones((1, 5, 2)), jnp.ones((3, 4, 8))
    >>> absorbed_latent_attention(query, rotated_query, latent, rotated_key, weight, weight).shape
    (1, 1, 4, 8)
    """
    scale = _check(query, rotated_query, latent, rotated_key, key_weight, value_weight, scale)
    absorbed = einsum("BTNH,RNH->BTNR", query, key_weight.astype(query.dtype)).astype(query.dtype)
    context = dot_product_attention(
        jnp.concatenate([absorbed, rotated_query], axis=-1),
        jnp.concatenate([latent, rotated_key], axis=-1)[:, :, None], latent[:, :, None], mask=mask,
        scale=scale, is_causal=is_causal, implementation=implementation,
    )  # fmt: skip
    return einsum("BTNR,RNH->BTNH", context, value_weight.astype(context.dtype)).astype(query.dtype)


def _check(
    query: Array,
    rotated_query: Array,
    latent: Array,
    rotated_key: Array,
    key_weight: Array,
    value_weight: Array,
    scale: Scale,
) -> float | int | Array:
    """Checks the shapes and returns the scale, by default 1 / sqrt(H + P)."""
    check_shapes(
        query=(query, "B T N H"),
        rotated_query=(rotated_query, "B T N P"),
        latent=(latent, "B S R"),
        rotated_key=(rotated_key, "B S P"),
        key_weight=(key_weight, "R N H"),
        value_weight=(value_weight, "R N Hv"),
    )
    return (query.shape[-1] + rotated_query.shape[-1]) ** -0.5 if scale is None else scale
