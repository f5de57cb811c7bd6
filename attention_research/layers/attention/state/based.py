"""Based, Arora et al. 2024 (arXiv 2402.18668), section 4: weights 1 + z + z^2 / 2 with z = q . k / sqrt(H), over their
sum.

Queries and keys have 16 channels, so that the state of a head is [1 + 16 + 256, Hv]. In the paper, these layers stand
beside attention with a short sliding window and convolutions.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.state import taylor_features
from attention_research.layers.attention.state.normalized import NormalizedAttention
from attention_research.signatures import Positive


class BasedAttention(NormalizedAttention):
    """Linear attention with Taylor features. `key_head_width` is the number of channels of queries and keys."""

    cost = ("N*(1 + H + H**2)*(Hv + 1) + N + max(convolution_width - 1, 0)*N*(2*H + Hv)", 1)

    def __init__(self, *, key_head_width: Positive = 16, **inherited: Any):
        super().__init__(key_head_width=key_head_width, **inherited)

    @property
    def num_channels(self) -> int:
        """1 + H + H^2."""
        return 1 + self.head_width + self.head_width**2

    def features(self, x: Array) -> tuple[Array, Array]:
        """Equation 5."""
        features = taylor_features(x)
        return features, jnp.zeros(x.shape[:-1], features.dtype)
