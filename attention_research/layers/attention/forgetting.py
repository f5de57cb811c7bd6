"""Forgetting attention (FoX), Lin et al. 2025 (arXiv 2503.02130): softmax(Q K^T / sqrt(H) + G_i - G_j) V with
G_t = sum_{m<=t} log sigmoid(x_m W + b).

Every head has a forget gate at each position, computed from the layer's input x (`kernels.forgetting_attention`). The
gates take the place of position encodings. W is [D N]. b starts at 0, as in the released code: at first a head forgets
half of what it sees with every token, and a long memory must be learned. In language_modelling/recall:cpu, the accuracy
after 800 steps is 14 % with 0 and 100 % with 5 (one run each).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.variants import forget_bias
from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.normalized_heads import NormalizedHeads
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class ForgettingAttention(NormalizedHeads):
    """Scaled dot-product attention in which later tokens make heads forget earlier ones, for decoders.

    `initial_bias` is the b of a new model; 5 keeps 99.3 % at every token. A cache also holds the logarithms of the
    gates, in float32.
    """

    cost = ("S*(K*(H + Hv) + N)", 2)

    def __init__(self, *, width: Positive, initial_bias: float = 0.0, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.forget = Linear(width, self.num_heads, rngs=rngs)
        self.forget.bias = nnx.Param(jnp.full((self.num_heads,), initial_bias, jnp.float32))

    def key_states(self, x: Array) -> dict[str, Array]:
        """log f [B S N]."""
        return {**super().key_states(x), "log_forget": jax.nn.log_sigmoid(self.forget(x).astype(jnp.float32))}

    def bias(self, query: Array, key: Array, where: Where) -> Array:
        """G_i - G_j."""
        return forget_bias(where.states["log_forget"], query.shape[1], query_offset=where.offset)
