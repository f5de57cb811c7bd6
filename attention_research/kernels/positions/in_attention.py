"""Positions added inside attention, Carion et al. 2020 (arXiv 2005.12872), section 3.2: softmax((q_i + p_i)
(k_j + p_j)^T scale) (v_j + p_j).

The paper (DETR) adds them to queries and keys in every layer and leaves the values alone; adding them to the values
too is `value_positions`. Only with all three is it the same as adding p to the layer's input under identity maps.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
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
    scale: float | int | None = None,
    is_causal: bool = False,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Dot-product attention over queries, keys and values to which encodings are added; None adds nothing.

    Encodings have a vector a head, or one for all heads ([T 1 H]). While decoding, `query_positions` is the row of the
    one query ([1 N H]). The rest is as in `dot_product_attention`. Raises ValueError naming the argument and the axis.
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
