"""The Switch layer in the Mesh TensorFlow version that Narang et al. 2021 (arXiv 2102.11972) ran: y = p_e(x) E_e(x).

Fedus et al. 2021 (arXiv 2101.03961), equations 1 to 4. Tokens are routed in groups of several rows, and the input of
the router has multiplicative noise (jitter) in training.
"""

from __future__ import annotations

from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Key

from attention_research.kernels import Routing, switch_routing
from attention_research.layers.feed_forward.experts import GroupedExperts
from attention_research.signatures import NonNegativeFloat


class ReleasedSwitchFeedForward(GroupedExperts):
    """The Switch layer over groups of tokens, with router jitter.

    With a key, the input of the router is x u, where u is drawn uniformly from [1 - jitter, 1 + jitter] for each value.
    The input of the experts is x. Narang et al. 2021 have 32 experts with relu, width 3,072 and no biases;
    capacity factor 1.2 in the encoder and 1.25 in the decoder; and 32 replicas (inferred from the published operation
    counts).

    `jitter` is the size of the noise on the input of the router.
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
