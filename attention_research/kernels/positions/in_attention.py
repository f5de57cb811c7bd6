"""Positions added inside attention, Carion et al. 2020 (arXiv 2005.12872), section 3.2: softmax((q_i + p_i)
(k_j + p_j)^T scale) (v_j + p_j).

The paper (DETR) adds positions to queries and keys in every layer, but not to values; `value_positions` adds them to
values too. If the projections are identity maps, adding p to all three equals adding p to the input of the layer.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.shapes import check_shapes


def positional_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    query_positions: Float[Array, "T #N H"] | None = None,
    key_positions: Float[Array, "S #K H"] | None = None,
    value_positions: Float[Array, "S #K Hv"] | None = None,
    *,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    scale: Scale = None,
    is_causal: bool = False,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Dot-product attention with encodings added to queries, keys and values. None adds nothing.

    Encodings have one vector per head, or one for all heads ([T 1 H]). In a decoding step, `query_positions` is the row
    of the single query ([1 N H]). Other arguments are those of `dot_product_attention`. Raises ValueError naming the
    argument and the axis.

    >>> x, value = jnp.zeros((1, 3, 1, 3)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> positions = 6.0 * jnp.eye(3)[:, None]  # [T 1 H]: each position asks for itself
    >>> print(positional_attention(x, x, value, positions, positions)[0, :, 0])
    [[1. 0. 0.]
     [0. 1. 0.]
     [0. 0. 1.]]
    """
    check_shapes(
        query=(query, "B T N H"),
        key=(key, "B S K H"),
        value=(value, "B S K Hv"),
        query_positions=(query_positions, "T #N H"),
        key_positions=(key_positions, "S #K H"),
        value_positions=(value_positions, "S #K Hv"),
    )
    query, key, value = (
        x if encoding is None else x + encoding.astype(x.dtype)
        for x, encoding in ((query, query_positions), (key, key_positions), (value, value_positions))
    )
    return dot_product_attention(
        query, key, value, mask=mask, scale=scale, is_causal=is_causal, implementation=implementation
    )
