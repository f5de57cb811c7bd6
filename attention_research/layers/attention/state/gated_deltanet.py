"""Gated DeltaNet, Yang et al. 2024 (arXiv 2412.06464), equation 10:
S_t = alpha_t (I - beta_t k_t^T k_t) S_(t-1) + beta_t k_t^T v_t, alpha_t = exp(-A softplus(x_t W + b)).

It is DeltaNet with a decay for each head, as in Mamba-2. The heads are normalized and multiplied by SiLU(x W_G). Values
are twice as wide as keys.
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


class GatedDeltaNet(DeltaNet):
    """The gated delta rule. A starts from U(0, 16), as in flash-linear-attention."""

    value_factor, gate_by = 2.0, staticmethod(jax.nn.silu)

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.step_size = Linear(self.width, self.num_heads, use_bias=False, rngs=rngs)
        self.decay = StepSize(self.num_heads, low=0.0, rngs=rngs)

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """The delta rule with the decay of section 3.4."""
        log_decay, _ = self.decay(self.step_size(x))
        return {**super().inputs(x, query, key, value, at), "log_decay": log_decay}
