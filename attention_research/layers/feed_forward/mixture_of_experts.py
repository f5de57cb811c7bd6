"""The mixture of experts of Mesh TensorFlow, Shazeer et al. 2018 (arXiv 1811.02084), described by Lepikhin et al. 2020
(GShard, arXiv 2006.16668), section 2.2 and algorithm 1: y = g1 E_1(x) + g2 E_2(x), over the two best experts."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Key

from attention_research.kernels import Routing, top_2_routing
from attention_research.layers.feed_forward.experts import GroupedExperts
from attention_research.signatures import PositiveFloat


class MixtureOfExperts(GroupedExperts):
    """g_i = p_i / (p_1 + p_2); in training the second expert is used with probability min(1, g_2 / threshold).

    Without a key it is used where g_2 > threshold; the released code draws in evaluation too. A decoder is causal only
    where no token is dropped: a later token's first choice takes a place before an earlier one's second.

    In Narang et al. 2021 (arXiv 2102.11972): 32 experts, relu of 1,536 without biases; `capacity_factor` 2.0 in the
    encoder and, by a misspelt binding, 1.25 in the decoder; `num_replicas` 32 (inferred from the published operations).
    """

    def __init__(self, *, threshold: PositiveFloat = 0.2, **inherited: Any):
        super().__init__(**inherited)
        self.threshold = threshold

    def route(
        self, x: Float[Array, "G S D"], capacity: int, key: Key[Array, ""] | None, real: Bool[Array, "G S"] | None
    ) -> Routing:
        """Algorithm 1, over each group."""
        return top_2_routing(self.router(x), capacity=capacity, threshold=self.threshold, key=key, real=real)
