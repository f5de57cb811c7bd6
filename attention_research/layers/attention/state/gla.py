"""Gated linear attention, Yang et al. 2023 (arXiv 2312.06635), section 4.4: S_t = diag(alpha_t) S_(t-1) + k_t^T v_t.

alpha_t = sigmoid(x_t W_1 W_2 + b)^(1 / 16), a decay for each channel of the keys; W_1 is [D 16]. Keys are half as wide
as values. The heads are normalized and multiplied by SiLU(x W_G).
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.state.state_attention import At, Inputs, StateAttention
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive, PositiveFloat


class GatedLinearAttention(StateAttention):
    """Gated linear attention. `decay_rank` is the rank of the decay's projection W_1 W_2.

    The logarithm of the decay is divided by `decay_temperature`, so that it starts near 1.
    """

    key_factor, gate_by = 0.5, staticmethod(jax.nn.silu)

    def __init__(
        self, *, decay_rank: Positive = 16, decay_temperature: PositiveFloat = 16.0, rngs: nnx.Rngs, **inherited: Any
    ):
        super().__init__(rngs=rngs, **inherited)
        self.decay_temperature = decay_temperature
        self.decay_down = Linear(self.width, decay_rank, use_bias=False, rngs=rngs)
        self.decay_up = Linear(decay_rank, self.num_heads * self.head_width, rngs=rngs)

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """Equation 7 and the parameters of section 4.4."""
        logits = self.heads(self.decay_up(self.decay_down(x)), self.head_width)
        log_decay = jax.nn.log_sigmoid(logits.astype(accumulator(x.dtype))) / self.decay_temperature
        return {"query": query, "key": key, "value": value, "log_decay": log_decay}
