"""Differential attention, Ye et al. 2024 (arXiv 2410.05258), equations 1 to 3: (A1 - lambda A2) V.

A1 and A2 are the softmax weights of the two halves of a head's query and key. lambda = exp(q1 k1) - exp(q2 k2) +
lambda_init, with four learned vectors [H] per layer, drawn from N(0, 0.1^2), and lambda_init = 0.8 - 0.6 exp(-0.3 l) in
layer l, counted from 0. The output of a head is normalized by its root mean square, with a gain [2 H] that the heads
share, and multiplied by 1 - lambda_init.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels import attention_weights
from attention_research.kernels.variants import differential_attention, differential_lambda, differential_lambda_init
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where
from attention_research.layers.attention.rotary import expect_even


class DifferentialAttention(MultiHeadAttention):
    """N heads, each with two queries and two keys of width H / 2 and values of width H.

    With the `num_heads` and `head_width` of standard attention it has as many parameters, apart from the four vectors
    and the gain. (The paper halves the number of heads and keeps the width of a query.) Weights are signed. Raises
    ConfigError if `head_width` is odd.
    """

    takes_depth = True

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        expect_even(self.head_width, "differential attention")
        half = self.head_width // 2
        vectors = lambda: nnx.Param(0.1 * jax.random.normal(rngs.params(), (2, half), jnp.float32))
        self.lambda_query, self.lambda_key = vectors(), vectors()
        self.gain_scale = nnx.Param(jnp.ones((self.head_width,), jnp.float32))

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equations 1 to 3. The weights are A1 - lambda A2, before the norm."""
        initial = differential_lambda_init(where.depth)
        query, key, value = self.prepare(query, key, value, where)
        query, key = (x.reshape(*x.shape[:3], 2, -1) for x in (query, key))
        vectors = self.lambda_query[...], self.lambda_key[...]
        visible: dict[str, Any] = {"mask": where.mask, "is_causal": where.is_causal}
        gain = self.gain_scale[...]
        context = differential_attention(query, key, value, *vectors, gain, lambda_init=initial, **visible)
        first, second = (attention_weights(query[:, :, :, one], key[:, :, :, one], **visible) for one in (0, 1))
        share = differential_lambda(*vectors, lambda_init=initial).astype(first.dtype)
        return context, first - share * second
