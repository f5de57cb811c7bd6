"""Taylor features of Based, Arora et al. 2024 (arXiv 2402.18668), equation 5: phi(q) . phi(k) = 1 + z + z^2 / 2 with
z = q . k / sqrt(H), the first terms of e^z.

phi(x) = [1, x / H^(1/4), x_i x_j / sqrt(2 H)] has 1 + H + H^2 entries. The weights are positive, because
1 + z + z^2 / 2 = ((1 + z)^2 + 1) / 2.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels.precision import accumulator


def taylor_features(x: Float[Array, "*B H"]) -> Float[Array, "*B M"]:
    """The features of queries or keys, in the accumulator's dtype.

    >>> print(taylor_features(jnp.array([2.0])))
    [1.   2.   2.83]
    """
    x = x.astype(accumulator(x.dtype))
    H = x.shape[-1]
    pairs = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], H * H)
    return jnp.concatenate([jnp.ones_like(x[..., :1]), x * H**-0.25, pairs / math.sqrt(2 * H)], axis=-1)
