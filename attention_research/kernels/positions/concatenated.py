"""Positions concatenated to the features, Liu et al. 2018 (arXiv 1807.03247), section 3: [x_i; p_i] W =
x_i W_x + p_i W_p.

The paper (CoordConv) concatenates coordinates to the channels of an image before a convolution; here it is before a
linear map. W_x is the upper rows of W, and W_p the lower rows. With W_x = W_p, this is (x_i + p_i) W_x, so that
addition is a special case.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def concatenate_positions(x: Float[Array, "B T D"], encoding: Float[Array, "#B T P"]) -> Float[Array, "B T DP"]:
    """[x; encoding] along the features, in x's dtype. The encoding is [B T P], or [1 T P] for all examples.

    >>> concatenate_positions(jnp.ones((2, 5, 4)), jnp.zeros((1, 5, 3))).shape
    (2, 5, 7)
    """
    check_shapes(x=(x, "B T D"), encoding=(encoding, "#B T P"))
    encoding = jnp.broadcast_to(encoding.astype(x.dtype), (*x.shape[:2], encoding.shape[2]))
    return jnp.concatenate([x, encoding], axis=-1)


def project_concatenated(
    x: Float[Array, "B T D"], encoding: Float[Array, "#B T P"], weight: Float[Array, "DP O"]
) -> Float[Array, "B T O"]:
    """concatenate_positions(x, encoding) @ weight, computed as the sum of two projections. weight is [D + P, O].

    No concatenation takes place, and an encoding that all examples share is projected once. Sums are in float32.

    >>> project_concatenated(jnp.ones((2, 5, 4)), jnp.ones((1, 5, 3)), jnp.ones((7, 6))).shape
    (2, 5, 6)
    """
    check_shapes(x=(x, "B T D"), encoding=(encoding, "#B T P"), weight=(weight, "DP O"))
    D, P = x.shape[2], encoding.shape[2]
    if weight.shape[0] != D + P:
        raise ValueError(f"weight: axis DP of [DP O]: expected {D} + {P} as x and encoding, got {weight.shape[0]}")
    weight = weight.astype(x.dtype)
    of_x = einsum("BTD,DO->BTO", x, weight[:D])
    of_encoding = einsum("BTP,PO->BTO", encoding.astype(x.dtype), weight[D:])
    return (of_x + of_encoding).astype(x.dtype)
