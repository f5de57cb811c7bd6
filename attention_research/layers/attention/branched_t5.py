"""The Weighted Transformer's self-attention, Ahmed et al. 2017 (arXiv 1711.02132), with the bias of Raffel et al. 2020:
softmax(Q_h K_h^T + b) in equation 3; the rest as `layers.attention.branched`."""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.branched import Branches
from attention_research.layers.attention.t5 import T5Attention
from attention_research.registry import Child, Positive


class BranchedT5Attention(T5Attention):
    """The stack owns the bias table, as for "t5"; projections have no biases."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        feed_forward: Child["feed_forward"],
        num_buckets: Positive = 32,
        max_distance: Positive = 128,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, use_bias=False, num_buckets=num_buckets,
            max_distance=max_distance, rngs=rngs,
        )  # fmt: skip
        self.branches = Branches(num_heads, feed_forward, rngs=rngs)

    def project_out(self, context: Float[Array, "B T N Hv"]) -> Float[Array, "B T D"]:
        """The branches in place of one projection of all heads."""
        return self.branches(context, self.output.kernel[...])
