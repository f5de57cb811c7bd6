"""Set attention, Lee et al. 2019 (arXiv 1810.00825), equation 7: Q + softmax(Q K^T / sqrt(N H)) V.

This is the attention of a multihead attention block (MAB) as in the released code: the projected query is the residual,
and the scale is that of the whole width N H, not of a head. The block adds a feed-forward and, if wanted, layer norms.
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.masks import padding_mask
from attention_research.kernels.shapes import check_shapes


def set_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S N H"],
    value: Float[Array, "B S N H"],
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B T N H"]:
    """Each of T elements attends to a set of S elements, and keeps its query.

    The result does not depend on the order of the S elements. `mask` is True at the elements of the set that are not
    padding; if there are none, the result is the query. Raises ValueError naming the argument and the axis.

    >>> query, key = jnp.zeros((1, 1, 1, 2)), jnp.ones((1, 3, 1, 2))
    >>> print(set_attention(query, key, jnp.arange(6.0).reshape(1, 3, 1, 2))[0, 0, 0])  # the mean of the set
    [2. 3.]
    """
    axes = "B S N H"
    sizes = check_shapes(query=(query, "B T N H"), key=(key, axes), value=(value, axes), mask=(mask, "B S"))
    visible = None if mask is None else padding_mask(mask)
    return query + dot_product_attention(query, key, value, mask=visible, scale=(sizes["N"] * sizes["H"]) ** -0.5)
