"""The Synthesizer of the Long Range Arena, Tay et al. 2021 (arXiv 2011.04006): softmax(Q K^T / sqrt(H) + R) V.

Its released default adds the random Synthesizer's table R [N T T] (Tay et al. 2020, arXiv 2005.00743, section 3.2) to
the dot products, so that it does not avoid any pair. The Synthesizers of Narang et al. 2021 (`synthesizer`) leave the
scale out and add T5's relative bias.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels import dot_product_attention
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.layers.attention.synthesizer import within
from attention_research.layers.linear import glorot_uniform
from attention_research.registry import Positive


class DotSynthesizer(SumOfValues):
    """R [N max_length max_length], Glorot; a shorter sequence takes its top left corner."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        max_length: Positive,
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        super().__init__(width=width, num_heads=num_heads, head_width=head_width, use_bias=use_bias, rngs=rngs)
        self.max_length = max_length
        self.table = nnx.Param(glorot_uniform(rngs.params(), (num_heads, max_length, max_length), jnp.float32))

    def attend(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B T N H"],
        value: Float[Array, "B T N Hv"],
        real: Bool[Array, "B T"] | None,
    ) -> Float[Array, "B T N Hv"]:
        """The equation above, with the table written out, as it is a parameter."""
        T = query.shape[1]
        within(T, self.max_length)
        mask = None if real is None else real[:, None, None, :]
        bias = self.table[...][None, :, :T, :T].astype(query.dtype)
        return dot_product_attention(query, key, value, bias, mask, implementation="reference")
