"""Exact hard monotonic attention, Wu & Cotterell 2019 (arXiv 1905.06319), section 3 (0-MONO):
p(a_i = j) = sum_k p(a_{i-1} = k) exp(e_ij) [j >= k] / sum_{j' >= k} exp(e_ij').

Each output reads one position a_i, which is not before the position of the previous output. The positions are not
chosen: this is the distribution of a_i, given that of a_{i-1} and the scores e of all positions. In Raffel et al. 2017
(`monotonic_alignment`) the process decides at each position whether to stop; here the next position is a softmax over
all positions that are left.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def latent_monotonic(
    scores: Float[Array, "B S"], previous: Float[Array, "B S"], *, mask: Bool[Array, "B S"] | None = None
) -> Float[Array, "B S"]:
    """The distribution of the position of this output, in float32.

    `previous` is the distribution of the previous position: one-hot at position 0 before the first output. `mask` is
    True at non-padding positions; weight of `previous` on padding is lost. The work is quadratic in S. Raises
    ValueError naming the argument and the axis.

    >>> scores, start = jnp.zeros((1, 3)), jnp.array([[0.0, 1.0, 0.0]])
    >>> latent_monotonic(scores, start).tolist()  # position 0 is past
    [[0.0, 0.5, 0.5]]
    """
    check_shapes(scores=(scores, "B S"), previous=(previous, "B S"), mask=(mask, "B S"))
    dtype = accumulator(jnp.promote_types(scores.dtype, previous.dtype))
    length = scores.shape[1]
    left = jnp.tri(length, dtype=bool).T[None]  # [k, j]: j is not before k
    if mask is not None:
        left = left & mask[:, None] & mask[:, :, None]
    logits = jnp.broadcast_to(scores.astype(dtype)[:, None], (scores.shape[0], length, length))
    return einsum("BK,BKJ->BJ", previous.astype(dtype), softmax_or_zero(logits, left))
