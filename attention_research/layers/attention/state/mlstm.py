"""mLSTM, Beck et al. 2024 (arXiv 2405.04517), equations 19 to 27: C_t = f_t C_(t-1) + i_t k_t^T v_t,
n_t = f_t n_(t-1) + i_t k_t, h_t = q_t C_t / max(|q_t n_t|, 1).

f = sigmoid(x W_f + b_f) and i = exp(x W_i + b_i), numbers per head. Keys are half as wide as values, the heads are
normalized and multiplied by sigmoid(x W_O), and there is no convolution, as in xLSTM 7B (arXiv 2503.13427). b_f starts
evenly spaced from 3 to 6 over the heads, and b_i at 0.

xLSTM 7B differs in the gates and the norm. There, b_i starts at -10, W_f and W_i at 0 (here as other projections), both
arguments of the gates are capped by 15 tanh(a / 15), and the norm of a head is a layer norm (here by its root mean
square).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.precision import accumulator
from attention_research.layers.attention.state.normalized import NormalizedAttention
from attention_research.layers.attention.state.state_attention import At, Inputs
from attention_research.layers.linear import Linear


class MLSTM(NormalizedAttention):
    """The matrix memory of the xLSTM, with an exponential input gate and a sigmoid forget gate."""

    key_factor, norm_over, gate_by, options = 0.5, "head", staticmethod(jax.nn.sigmoid), {"floor": True}

    def __init__(self, *, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.input_gate = Linear(self.width, self.num_heads, rngs=rngs)
        self.forget_gate = Linear(self.width, self.num_heads, use_bias=False, rngs=rngs)
        self.forget_bias = nnx.Param(jnp.linspace(3.0, 6.0, self.num_heads, dtype=jnp.float32))

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """Equations 24 to 27."""
        wide = accumulator(x.dtype)
        forget = self.forget_gate(x).astype(wide) + self.forget_bias[...].astype(wide)
        given = {"query": query, "key": key, "value": value}
        return {**given, "log_scale": self.input_gate(x).astype(wide), "log_decay": jax.nn.log_sigmoid(forget)}
