"""Concat scores, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: e_ij = v^T tanh(W [q_i; k_j]).

It equals the additive score: with W = [W_q W_k], the product with the concatenated vectors is W_q q_i + W_k k_j, so
that the [B T S Dq+Dk] concatenation is never formed. The paper's experiments use a simplified form, in which the block
that multiplies the source state is the identity, v^T tanh(W_q q_i + k_j), as in the released code. The paper gives this
as the reason for its perplexities. Pass [W_q I] for this form.
"""

from __future__ import annotations

from jaxtyping import Array, Float

from attention_research.kernels.scores.additive import additive_scores
from attention_research.kernels.scores.arguments import check_scores


def concat_scores(
    query: Float[Array, "B T Dq"],
    keys: Float[Array, "B S Dk"],
    weight: Float[Array, "A C"],
    v: Float[Array, "A"],
    *,
    chunk_size: int | None = None,
) -> Float[Array, "B T S"]:
    """v^T tanh(W [q_i; k_j]) for all queries and keys, in float32. C = Dq + Dk; the columns of the query are first.

    `chunk_size` as in `additive_scores`. Raises ValueError naming the argument and the axis.

    >>> concat_scores(jnp.ones((1, 2, 3)), jnp.ones((1, 5, 4)), jnp.ones((6, 3 + 4)), jnp.ones(6)).shape
    (1, 2, 5)
    """
    sizes = check_scores((query, "B T Dq"), (keys, "B S Dk"), weight=(weight, "A C"), v=(v, "A"))
    width = sizes["Dq"]
    if sizes["C"] != width + sizes["Dk"]:
        raise ValueError(
            f"weight: axis C of [A C]: expected Dq + Dk = {width} + {sizes['Dk']}, got {sizes['C']} "
            f"({list(weight.shape)})"
        )
    return additive_scores(query, keys, weight[:, :width], weight[:, width:], v, chunk_size=chunk_size)
