"""Lightning attention, Qin et al. 2024 (arXiv 2401.04658), equation 4, as in MiniMax-01 (arXiv 2501.08313):
S_t = lambda S_(t-1) + k_t^T v_t, o_t = q_t S_t.

Queries, keys and values are SiLU(x W), without positions and without a scale. Head n = 1..N of layer l = 0..L-1 has
lambda = exp(-2^(-8 n / N) (1 - l / (L - 1 + 1e-5) + 1e-5)), as in the released code of MiniMax: the last layer hardly
forgets. One RMS norm over all heads follows, and the output is multiplied by sigmoid(x W_G).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.layers.attention.state.state_attention import At, Inputs, StateAttention
from attention_research.signatures import Positive


class LightningAttention(StateAttention):
    """Linear attention with a decay that depends on the head and on the layer. `num_layers` is L."""

    takes_depth = True
    activated, norm_over, gate_by, options = True, "all", staticmethod(jax.nn.sigmoid), {"scale": 1.0}

    def __init__(self, *, num_layers: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.num_layers = num_layers

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """Equation 4 with the decays of MiniMax-01."""
        heads = jnp.arange(1, self.num_heads + 1, dtype=jnp.float32)
        depth = jnp.asarray(at.depth).astype(jnp.float32)
        slope = 2.0 ** (-8 * heads / self.num_heads) * (1 - depth / (self.num_layers - 1 + 1e-5) + 1e-5)
        return {"query": query, "key": key, "value": value, "log_decay": jnp.broadcast_to(-slope, query.shape[:3])}
