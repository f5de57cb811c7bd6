"""Mamba-2, Dao & Gu 2024 (arXiv 2405.21060), section 7: S_t = e^(-A dt_t) S_(t-1) + (dt_t B_t)^T x_t.

The output is y_t = C_t S_t + D x_t. C, B and x are the queries, keys and values: SiLU(conv4(u W)). A, D and
dt = softplus(u W_dt + b) are numbers per head. The heads of a group share B and C. The layer returns
RMSNorm(y SiLU(u W_z)) W_out, with one norm over all heads. In the paper, it stands alone in its block, without a
feed-forward layer.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.layers.attention.state.state_attention import At, Inputs, StateAttention
from attention_research.layers.attention.state.step_size import StepSize
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class Mamba2(StateAttention):
    """State space duality. The keys have `key_head_width` channels (the size of the state), the values of all heads
    together 2 * width.

    `num_groups` is the number of different keys and queries; it divides the number of heads. `convolution_width` is the
    number of taps of the convolution. Raises ConfigError if the groups do not divide the heads.
    """

    cost = ("N*H*Hv + max(convolution_width - 1, 0)*(2*num_groups*H + N*Hv)", 1)
    value_factor, gate_by, options = 2.0, staticmethod(jax.nn.silu), {"scale": 1.0}
    convolution_bias, norm_over = True, "all"

    def __init__(
        self,
        *,
        num_heads: Positive,
        num_groups: Positive = 1,
        key_head_width: Positive | None = 128,
        convolution_width: Positive = 4,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        if num_heads % num_groups:
            raise ConfigError(f"num_groups: {num_groups} does not divide the {num_heads} heads")
        self.num_groups = num_groups
        super().__init__(
            num_heads=num_heads,
            key_head_width=key_head_width,
            convolution_width=convolution_width,
            rngs=rngs,
            **inherited,
        )
        self.step_size = Linear(self.width, num_heads, use_bias=False, rngs=rngs)
        self.decay = StepSize(num_heads, rngs=rngs)
        self.skip = nnx.Param(jnp.ones((num_heads,), jnp.float32))

    def project_widths(self) -> tuple[int, int]:
        """B and C have the width of the groups."""
        return self.num_groups * self.head_width, self.num_heads * self.value_head_width

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """Section 7.1. The step size multiplies B, so that the weights are those of x."""
        log_decay, size = self.decay(self.step_size(x))
        key = key.astype(size.dtype) * size[..., None]
        return {"query": query, "key": key.astype(x.dtype), "value": value, "log_decay": log_decay}

    def finish(self, context: Array, x: Array, given: Inputs) -> Array:
        """The skip connection D, the gate, the norm after it, and the projection."""
        context = context + self.skip[...].astype(x.dtype)[:, None] * given["value"]
        return self.output(self.normalized(self.gated(context.reshape(*x.shape[:2], -1), x)))
