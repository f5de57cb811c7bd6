"""FIRE, Li et al. 2023 (arXiv 2310.04418): softmax(Q K^T / sqrt(H) + f(log(c (i - j) + 1) / log(c max(i, L) + 1))) V.

f is a network with one hidden layer, from the relative distance to one number for each head (`kernels.fire_bias`). c
starts at 0.1 and L = m L_0 at L_0; c and m are learned, as in the released code.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.positions import fire_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.signatures import Positive, PositiveFloat


class FireAttention(MultiHeadAttention):
    """Scaled dot-product attention with a learned function of the distance over the position, for decoders.

    `bias_width` is the width of the hidden layer of f. `threshold` is L_0, the position up to which distances are not
    divided by the position.
    """

    def __init__(
        self, *, bias_width: Positive = 32, threshold: PositiveFloat = 512.0, rngs: nnx.Rngs, **inherited: Any
    ):
        super().__init__(rngs=rngs, **inherited)
        self.threshold = threshold
        draw = lambda bound, *shape: jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound)
        self.slope_scale = nnx.Param(jnp.full((), 0.1, jnp.float32))
        self.threshold_scale = nnx.Param(jnp.ones((), jnp.float32))
        self.hidden_scale = nnx.Param(draw(1.0, bias_width))
        self.hidden_bias = nnx.Param(draw(1.0, bias_width))
        self.bias_kernel = nnx.Param(draw(bias_width**-0.5, bias_width, self.num_heads))

    def bias(self, query: Array, key: Array, where: Where) -> Array:
        """f of every pair."""
        return fire_bias(
            self.slope_scale[...], self.threshold * self.threshold_scale[...], self.hidden_scale[...],
            self.hidden_bias[...], self.bias_kernel[...], query.shape[1], key.shape[1], where.mask,
            query_offset=where.offset,
        )  # fmt: skip
