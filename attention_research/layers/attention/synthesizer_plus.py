"""Mixtures of a Synthesizer with dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4.

softmax(a_1 Q K^T + a_2 S + b) V, as Narang et al. 2021 ran them: the dot products are not scaled, b is T5's relative
bias of the stack, and the projections have no biases. "Plus" is the sum, a_1 = a_2 = 1. "Plus alpha" has one learned
scalar per layer, a_1 = 1 - sigmoid(alpha) and a_2 = sigmoid(alpha), with alpha initialized to 0, so that both start at
1/2 (the paper has one pair per head, which sums to 1). A variant subclasses `SynthesizerPlus` and defines `synthetic`,
the S.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_research.kernels import attention_weights, dot_product_attention
from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.multi_head import Offset, Where
from attention_research.layers.attention.synthesizer import within
from attention_research.layers.attention.t5 import T5Attention
from attention_research.signatures import Positive


class SynthesizerPlus(T5Attention):
    """T5's attention with synthetic scores in addition to its dot products, for sequences up to `max_length`."""

    def __init__(self, *, max_length: Positive, **inherited: Any):
        super().__init__(use_bias=False, value_head_width=None, **inherited)
        self.max_length = max_length

    def synthetic(self, query: Array, key_length: int, offset: Offset) -> Float[Array, "#B N T S"]:
        """S, the equation of the variant. Query t is at position offset + t."""
        raise NotImplementedError

    def shares(self) -> tuple[Float[Array, ""] | float, Float[Array, ""] | float]:
        """Returns (a_1, a_2), the factors of the dot products and of the synthetic scores."""
        return 1.0, 1.0

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Attention with the synthetic scores as a bias of the dot products."""
        T, S, dtype = query.shape[1], key.shape[1], accumulator(query.dtype)
        within(S, self.max_length)
        dot, synthetic = (jnp.asarray(share, dtype) for share in self.shares())
        options: dict[str, Any] = {
            "bias": synthetic * self.synthetic(query, S, where.offset).astype(dtype),
            "distance_bias": self.distance_bias(T, S, where),
            "mask": where.mask, "is_causal": where.is_causal, "scale": 1.0,
        }  # fmt: skip
        query = (dot * query.astype(dtype)).astype(query.dtype)
        return dot_product_attention(query, key, value, **options), attention_weights(query, key, **options)


def learned_shares(alpha: Float[Array, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns (1 - sigmoid(alpha), sigmoid(alpha))."""
    share = jax.nn.sigmoid(alpha)
    return 1.0 - share, share
