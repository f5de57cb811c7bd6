"""Positions added to the embeddings, Gehring et al. 2017 (arXiv 1705.03122), section 3.1: e_i = x_i + p_i.

As a linear map sees it, adding is concatenating with tied projections: (x + p) W = [x; p] [W; W].
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.shapes import check_shapes


def add_positions(x: Float[Array, "B T D"], encoding: Float[Array, "#B T D"]) -> Float[Array, "B T D"]:
    """x + encoding in x's dtype; the encoding is [B T D], or [1 T D] for every example. No scaling of x by sqrt(D)."""
    check_shapes(x=(x, "B T D"), encoding=(encoding, "#B T D"))
    return x + encoding.astype(x.dtype)
