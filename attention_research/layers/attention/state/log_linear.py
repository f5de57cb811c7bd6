"""Log-linear attention, Guo et al. 2025 (arXiv 2506.04761), section 3: Mamba-2 with a state for each level of a
Fenwick tree, o_t = sum_l lambda_t[l] q_t S_t[l].

The weights of the levels are lambda = softplus(L (x W_lambda)), with numbers L for each head and level, which start at
1. Levels are added to Mamba-2 and its parameters: with all lambda 1, the output is that of Mamba-2. The state has
ceil(log2(max_length)) + 1 levels. A decoder whose text follows a source of `max_length` tokens has one level more.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array

from attention_research.kernels.precision import accumulator
from attention_research.kernels.state import (
    LogLinearState,
    log_linear_attention,
    log_linear_step,
    no_log_linear_state,
)
from attention_research.kernels.state.log_linear import num_levels
from attention_research.layers.attention.state.mamba2 import Mamba2
from attention_research.layers.attention.state.state_attention import At, Inputs
from attention_research.layers.linear import Linear
from attention_research.signatures import Positive


class LogLinearAttention(Mamba2):
    """Log-linear Mamba-2, for sequences up to `max_length`. Raises ValueError for longer ones."""

    cost = (
        "(ceil(log2(max_length)) + 1)*N*H*Hv + max(convolution_width - 1, 0)*(2*num_groups*H + N*Hv)",
        1,
    )
    kernel, kernel_step = staticmethod(log_linear_attention), staticmethod(log_linear_step)

    def __init__(self, *, max_length: Positive, rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.max_length, self.num_levels = max_length, num_levels(max_length)
        self.level = Linear(self.width, self.num_heads * self.num_levels, use_bias=False, rngs=rngs)
        self.level_scale = nnx.Param(jnp.ones((self.num_heads, self.num_levels), jnp.float32))

    def before(self, batch: int) -> LogLinearState:
        """No states."""
        return no_log_linear_state(
            batch, self.num_heads, self.num_levels, self.head_width, self.value_head_width, jnp.float32
        )

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """The inputs of Mamba-2 and the weights of the levels."""
        self._within(x.shape[1])
        logits = self.heads(self.level(x), self.num_levels).astype(accumulator(x.dtype))
        weights = jax.nn.softplus(self.level_scale[...].astype(logits.dtype) * logits)
        return {**super().inputs(x, query, key, value, at), "level_weights": weights}

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Any]:
        """An empty cache: the states of the levels, in float32, and the last inputs of the convolution."""
        self._within(length)
        return super().start(batch, length, dtype)

    def prefill(self, x: Array, length: int, **given: Any) -> tuple[Array, Any, Any]:
        """Processes the first P of `length` positions in one call. Returns (y, the cache after them, aux)."""
        self._within(length)
        return super().prefill(x, length, **given)

    def _within(self, length: int) -> None:
        if length > self.max_length:
            raise ValueError(f"log-linear attention: {length} positions are more than its max_length {self.max_length}")
