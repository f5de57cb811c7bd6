"""The Weighted Transformer's self-attention, Ahmed et al. 2017 (arXiv 1711.02132), with the bias of Raffel et al. 2020.

The weights of equation 3 are softmax(Q_h K_h^T + b). The rest is as in `layers.attention.branched`.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.branched import Branches
from attention_research.layers.attention.multi_head import NOWHERE, Where
from attention_research.layers.attention.t5 import T5Attention
from attention_research.signatures import Child


class BranchedT5Attention(T5Attention):
    """Branched attention with the T5 bias. The stack owns the bias table, as for "t5". Projections have no biases."""

    def __init__(self, *, feed_forward: Child["feed_forward"], rngs: nnx.Rngs, **inherited: Any):
        super().__init__(value_head_width=None, num_key_value_heads=None, use_bias=False, rngs=rngs, **inherited)
        self.branches = Branches(self.num_heads, feed_forward, rngs=rngs)

    def finish(self, context: Array, where: Where = NOWHERE) -> Float[Array, "B T D"]:
        """Applies the branches instead of one output projection of all heads."""
        return self.branches(context, self.output.kernel[...])
