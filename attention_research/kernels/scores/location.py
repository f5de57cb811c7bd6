"""Location scores, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.1: a_i = softmax(W q_i).

The scores do not depend on the keys: row j of W [L Dq] scores position j, so that there are at most L positions. A
shorter source uses the first rows, and words beyond L are ignored. The paper does not define whether the softmax is
applied before or after this truncation. `location_scores` leaves it to `attend`, which normalizes over the existing
positions. `location_weights` follows the first released code, which truncates a softmax over all L positions, so that
the weights of a shorter source sum to less than 1.
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
    """W q_i at the first S = `key_length` positions, in float32. Positions from L on are -inf (masked).

    Raises ValueError naming the argument and the axis.

    >>> location_scores(jnp.ones((1, 2, 3)), jnp.ones((9, 3)), key_length=5).shape  # from the query alone
    (1, 2, 5)
    """
    check_shapes(query=(query, "B T Dq"), weight=(weight, "L Dq"))
    return _lengthen(_all_scores(query, weight[:key_length]), key_length, -jnp.inf)


def location_weights(
    query: Float[Array, "B T Dq"], weight: Float[Array, "L Dq"], key_length: int
) -> Float[Array, "B T S"]:
    """The first S = `key_length` entries of softmax(W q_i) over L positions, in float32. Entries from L on are 0.

    Raises ValueError naming the argument and the axis.

    >>> weights = location_weights(jnp.ones((1, 2, 3)), jnp.ones((9, 3)), key_length=5)
    >>> print(weights.sum(axis=-1))  # the weights of all 9 places sum to 1
    [[0.56 0.56]]
    """
    check_shapes(query=(query, "B T Dq"), weight=(weight, "L Dq"))
    return _lengthen(softmax_or_zero(_all_scores(query, weight))[..., :key_length], key_length, 0.0)


def _all_scores(query: Array, weight: Array) -> Array:
    return einsum("BTD,LD->BTL", query, weight.astype(query.dtype))


def _lengthen(x: Array, key_length: int, filling: float) -> Array:
    return jnp.pad(x, ((0, 0), (0, 0), (0, key_length - x.shape[-1])), constant_values=filling)
