"""No positional encoding, Haviv et al. 2022 (arXiv 2203.16634): x_i = embedding_i.

Full self-attention is then blind to order: permuting the tokens permutes the outputs. Causal self-attention is not:
a query that weighs its keys equally gives any one of them 1 / (i + 1), from which later layers can read i.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.shapes import check_shapes


def no_positions(x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
    """x as it is: the row "none" of a comparison."""
    check_shapes(x=(x, "B T D"))
    return x
