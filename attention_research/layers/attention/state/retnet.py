"""RetNet, Sun et al. 2023 (arXiv 2307.08621), equations 5 to 8: S_t = gamma S_(t-1) + k_t^T v_t, o_t = q_t S_t.

gamma = 1 - 2^(-5 - n) for head n = 0, 1, ... Queries and keys have rotary positions. The heads are normalized, joined
and multiplied by SiLU(x W_G). Values are twice as wide as keys, as in the released code (torchscale).

The frequencies of the rotation are those of Su et al. 2021, not the released linspace(0, 1). The normalization of the
rows of the decay mask (section 2.4) cancels in the RMS norm of the heads and is left out. The gain of the norm is that
of flash-linear-attention; torchscale has none. Matrices start Glorot uniform, not with the released gains.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.kernels import rotary
from attention_research.layers.attention.state.state_attention import At, Inputs, StateAttention


class RetNet(StateAttention):
    """Multi-scale retention. Raises ConfigError if the width of a head's keys is odd."""

    value_factor, gate_by = 2.0, staticmethod(jax.nn.silu)

    def __init__(self, **inherited: Any):
        super().__init__(**inherited)
        if self.head_width % 2:
            raise ConfigError(f"key_head_width: {self.head_width}; the rotation of retnet expects an even number")

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """Equation 8."""
        turn = lambda x: rotary(x, at.offset + jnp.arange(x.shape[1], dtype=jnp.int32))
        decay = np.log1p(-(2.0 ** (-5.0 - np.arange(self.num_heads)))).astype(np.float32)
        decay = jnp.broadcast_to(jnp.asarray(decay), query.shape[:3])
        return {"query": turn(query), "key": turn(key), "value": value, "log_decay": decay}
