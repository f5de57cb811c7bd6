"""The Switch layer as Narang et al. 2021 (arXiv 2102.11972) ran it, with Mesh TensorFlow: Fedus et al. 2021 (arXiv
2101.03961), equations 1 to 4, y = p_e(x) E_e(x), over groups of many rows, the router's input jittered in training."""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Key

from attention_research.kernels import Routing, switch_routing
from attention_research.layers.feed_forward.experts import GroupedExperts
from attention_research.signatures import NonNegativeFloat


class ReleasedSwitchFeedForward(GroupedExperts):
    """With a key the router reads x u, u uniform in [1 - jitter, 1 + jitter] and drawn for each value; experts read x.

    Their run: 32 experts, relu of 3,072 without biases; `capacity_factor` 1.2 in the encoder, 1.25 in the decoder;
    `num_replicas` 32 (inferred from the published operations).
    """

    def __init__(self, *, jitter: NonNegativeFloat = 0.01, **inherited: Any):
        super().__init__(**inherited)
        self.jitter = jitter

    def route(
        self, x: Float[Array, "G S D"], capacity: int, key: Key[Array, ""] | None, real: Bool[Array, "G S"] | None
    ) -> Routing:
        """Equations 1 and 2."""
        if key is not None and self.jitter:
            x = x * jax.random.uniform(key, x.shape, x.dtype, 1.0 - self.jitter, 1.0 + self.jitter)
        return switch_routing(self.router(x), capacity=capacity, real=real)
