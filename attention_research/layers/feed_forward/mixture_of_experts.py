"""The mixture of experts of Mesh TensorFlow with two experts per token: y = g1 E_1(x) + g2 E_2(x).

Shazeer et al. 2018 (arXiv 1811.02084), described by Lepikhin et al. 2020 (GShard, arXiv 2006.16668), section 2.2 and
algorithm 1. E_1 and E_2 are the two experts with the highest router probabilities. The default threshold of the second
expert, 0.2, is that of Mesh TensorFlow; algorithm 1 has 0.5.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Key

from attention_research.errors import ConfigError
from attention_research.kernels import Routing, top_2_routing
from attention_research.layers.feed_forward.experts import GroupedExperts
from attention_research.signatures import PositiveFloat


class MixtureOfExperts(GroupedExperts):
    """Routes each token to its two best experts, with gates g_i = p_i / (p_1 + p_2).

    In training, the second expert is used with probability min(1, g_2 / threshold). Without a key, it is used if g_2 >
    threshold; the released code samples in evaluation too. Since g_2 is at most 1/2, each token has only one expert in
    evaluation if the threshold is 0.5 (as in algorithm 1) or more. In a decoder, the layer is causal only if no token
    is dropped, because the first choice of a later token takes a place before the second choice of an earlier token.

    Narang et al. 2021 (arXiv 2102.11972) have 32 experts with relu, width 1,536 and no biases; capacity factor 2.0 in
    the encoder and, because of a misspelt binding, 1.25 in the decoder; and 32 replicas (inferred from the published
    operation counts).

    `threshold` decides when the second expert is used. Raises ConfigError for fewer than two experts.
    """

    def __init__(self, *, threshold: PositiveFloat = 0.2, **inherited: Any):
        super().__init__(**inherited)
        if self.num_experts < 2:
            raise ConfigError(f"num_experts: mixture_of_experts expects at least 2, got {self.num_experts}")
        self.threshold = threshold

    def route(
        self, x: Float[Array, "G S D"], capacity: int, key: Key[Array, ""] | None, real: Bool[Array, "G S"] | None
    ) -> Routing:
        """Algorithm 1 for each group."""
        return top_2_routing(self.router(x), capacity=capacity, threshold=self.threshold, key=key, real=real)
