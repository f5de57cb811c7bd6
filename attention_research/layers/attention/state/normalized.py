"""Layers whose weights are divided by their sum: causal linear attention, Katharopoulos et al. 2020 (arXiv 2006.16236),
section 3.3, and its relatives: o_t = phi(q_t) sum_j phi(k_j)^T v_j / phi(q_t) sum_j phi(k_j)^T.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.state import no_normalized_state, normalized_attention, normalized_step
from attention_research.layers.attention.state.state_attention import At, Inputs, StateAttention


class NormalizedAttention(StateAttention):
    """The weights of each position add up to 1. A variant defines `features`."""

    cost = ("N*H*(Hv + 1) + N + max(convolution_width - 1, 0)*N*(2*H + Hv)", 1)
    kernel, kernel_step = staticmethod(normalized_attention), staticmethod(normalized_step)
    norm_over: Literal["head", "all"] | None = None
    options: Mapping[str, Any] = {"scale": 1.0}

    def features(self, x: Array) -> tuple[Array, Array]:
        """(features [B T N M], the logarithm of a factor of them [B T N]) of queries or keys."""
        raise NotImplementedError

    @property
    def num_channels(self) -> int:
        """The number of features M."""
        return self.head_width

    def inputs(self, x: Array, query: Array, key: Array, value: Array, at: At) -> Inputs:
        """The features of queries and keys. The factor of a query cancels."""
        (query, _), (key, log_scale) = self.features(query), self.features(key)
        return {"query": query, "key": key, "value": value.astype(query.dtype), "log_scale": log_scale}

    def before(self, batch: int) -> Any:
        """No sums."""
        return no_normalized_state(batch, self.num_heads, self.num_channels, self.value_head_width, jnp.float32)

    def finish(self, context: Array, x: Array, given: Inputs) -> Array:
        """The output projection, in the dtype of x."""
        return super().finish(context.astype(x.dtype), x, given)
