"""Query-key normalization with a norm layer, Dehghani et al. 2023 (arXiv 2302.05442), section 2:
softmax(LN(Q) LN(K)^T / sqrt(H)) V.

The norm is over the width of a head, and its gain [H] is shared by the heads. ViT-22B has a layer norm without a bias
(`center=True`). Qwen3 and Gemma 3 have a root mean square norm (`center=False`), before rotary positions. Other models
differ: OLMo 2 normalizes the whole projection by its root mean square, before it is split into heads, and Chameleon has
a layer norm with a gain and a bias for each head, with epsilon 1e-5.
"""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.normalization import layer_norm
from attention_research.kernels.rms_norm import rms_norm
from attention_research.kernels.shapes import check_shapes


def query_key_norm_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    query_gain: Float[Array, "H"],
    key_gain: Float[Array, "H"],
    bias: Float[Array, "#B #N #T #S"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    center: bool = False,
    epsilon: float = 1e-6,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """`dot_product_attention` of normalized queries and keys, with RMSNorm or, with `center`, layer norm.

    Rotary positions are applied after the norm. With rotary positions, call `rms_norm`, rotate, and call
    `dot_product_attention` instead of this function. Raises ValueError naming the argument and the axis.

    >>> query, value = jnp.array([7.0, 0.0]).reshape(1, 1, 1, 2), jnp.eye(2)[None, :, None]
    >>> key = jnp.array([[100.0, 0.0], [0.0, 1.0]]).reshape(1, 2, 1, 2)
    >>> print(query_key_norm_attention(query, key, value, jnp.ones(2), jnp.ones(2)))  # lengths do not matter
    [[[[0.8 0.2]]]]
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), query_gain=(query_gain, "H"), key_gain=(key_gain, "H"))
    norm = partial(normalized, center=center, epsilon=epsilon)
    return dot_product_attention(
        norm(query, query_gain), norm(key, key_gain), value, bias, mask, scale=scale, is_causal=is_causal,
        local_window_size=local_window_size, implementation=implementation,
    )  # fmt: skip


def normalized(
    x: Float[Array, "*B H"], gain: Float[Array, "H"], *, center: bool, epsilon: float = 1e-6
) -> Float[Array, "*B H"]:
    """RMSNorm or, with `center`, layer norm without a bias, over the last axis.

    >>> print(normalized(jnp.array([1.0, 7.0]), jnp.ones(2), center=True))
    [-1.  1.]
    """
    return layer_norm(x, gain, jnp.zeros_like(gain), epsilon=epsilon) if center else rms_norm(x, gain, epsilon=epsilon)
