"""Kimi Delta Attention, Kimi Team 2025 (arXiv 2510.26692), equation 1:
S_t = (I - beta_t k_t^T k_t) diag(alpha_t) S_(t-1) + beta_t k_t^T v_t, alpha_t = exp(-A softplus(x_t W_1 W_2 + b)).

It is Gated DeltaNet with a decay for each channel of the keys. The heads are normalized and multiplied by
sigmoid(x W_1' W_2' + b'). The bias b' is that of flash-linear-attention; Hugging Face's Kimi Linear has none. Kimi
Linear has one layer of full attention without positions after three of these.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.attention.state.deltanet import DeltaNet
from attention_research.layers.attention.state.state_attention import At, Inputs
from attention_research.layers.attention.state.step_size import StepSize
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class KimiDeltaAttention(DeltaNet):
    """The delta rule with a decay for each channel. `rank` is the rank of the projections of the decay and of the gate;
    None means the width of a head's values."""

    def __init__(self, *, rank: Positive | None = None, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        rank = self.value_head_width if rank is None else rank
        keys, values = self.project_widths()
        self.decay_down = Linear(self.width, rank, use_bias=False, rngs=rngs)
        self.decay_up = Linear(rank, keys, use_bias=False, rngs=rngs)
        self.decay = StepSize(self.num_heads, channels=self.head_width, rngs=rngs)
        self.gate_down = Linear(self.width, rank, use_bias=False, rngs=rngs)
        self.gate_up = Linear(rank, values, rngs=rngs)

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """The delta rule with the decay of section 4."""
        log_decay, _ = self.decay(self.decay_up(self.decay_down(x)))
        given = super().inputs(x, query, key, value, at)
        return {**given, "log_decay": self.heads(log_decay, self.head_width)}

    def finish(self, context: Array, x: Array, given: Inputs) -> Array:
        """The norm of the heads, the gate and the projection."""
        return self.output(
            self.normalized(context).reshape(*x.shape[:2], -1) * jax.nn.sigmoid(self.gate_up(self.gate_down(x)))
        )
