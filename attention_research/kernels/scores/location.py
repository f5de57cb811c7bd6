"""Location scores, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: a_i = softmax(W q_i).

The keys are not looked at: row j of W [L Dq] scores position j, so there are no more than L positions. A shorter
source uses the top part; words beyond L are ignored. The paper does not say whether the softmax comes before that cut
or after it. `location_scores` leaves it to `attend`, which normalises over the positions that there are;
`location_weights` is the first released code, a softmax over all L whose top part is used as it is, so that weights of
a shorter source sum to less than 1.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def location_scores(
    query: Float[Array, "B T Dq"], weight: Float[Array, "L Dq"], key_length: int
) -> Float[Array, "B T S"]:
    """W q_i at the first S = `key_length` positions, in float32; -inf, which is never attended to, from L on.

    Raises ValueError naming the argument and the axis.
    """
    check_shapes(query=(query, "B T Dq"), weight=(weight, "L Dq"))
    return _lengthen(_all_scores(query, weight[:key_length]), key_length, -jnp.inf)


def location_weights(
    query: Float[Array, "B T Dq"], weight: Float[Array, "L Dq"], key_length: int
) -> Float[Array, "B T S"]:
    """The first S = `key_length` entries of softmax(W q_i) over L, in float32; 0 from L on.

    Raises ValueError naming the argument and the axis.
    """
    check_shapes(query=(query, "B T Dq"), weight=(weight, "L Dq"))
    return _lengthen(softmax_or_zero(_all_scores(query, weight))[..., :key_length], key_length, 0.0)


def _all_scores(query: Array, weight: Array) -> Array:
    return einsum("BTD,LD->BTL", query, weight.astype(query.dtype))


def _lengthen(x: Array, key_length: int, filling: float) -> Array:
    return jnp.pad(x, ((0, 0), (0, 0), (0, key_length - x.shape[-1])), constant_values=filling)
