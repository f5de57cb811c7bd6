"""Positions added to the embeddings, Gehring et al. 2017 (arXiv 1705.03122), section 3.1: e_i = x_i + p_i.

For a linear map, addition equals concatenation with tied projections: (x + p) W = [x; p] [W; W].
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.shapes import check_shapes


def add_positions(x: Float[Array, "B T D"], encoding: Float[Array, "#B T D"]) -> Float[Array, "B T D"]:
    """x + encoding in x's dtype. The encoding is [B T D], or [1 T D] for all examples. x is not scaled by sqrt(D).

    >>> add_positions(jnp.ones((1, 2, 2)), jnp.array([[[0.0, 1.0], [2.0, 3.0]]])).tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    check_shapes(x=(x, "B T D"), encoding=(encoding, "#B T D"))
    return x + encoding.astype(x.dtype)
