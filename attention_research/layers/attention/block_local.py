"""Block-local attention, Liu et al. 2018 (arXiv 1801.10198): a position attends within its own block of the sequence.

The "local attention" of the Long Range Arena, Tay et al. 2021 (arXiv 2011.04006), in the form that its text means (what
its released code does instead: `kernels.efficient.block_local`).
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels import block_local_attention
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.registry import Positive


class BlockLocalAttention(SumOfValues):
    """Disjoint blocks of `block_size` positions; nothing ever crosses their borders."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        block_size: Positive = 50,
        use_bias: bool = True,
        rngs: nnx.Rngs,
    ):
        super().__init__(width=width, num_heads=num_heads, head_width=head_width, use_bias=use_bias, rngs=rngs)
        self.block_size = block_size

    def attend(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B T N H"],
        value: Float[Array, "B T N Hv"],
        real: Bool[Array, "B T"] | None,
    ) -> Float[Array, "B T N Hv"]:
        """Softmax within the block."""
        return block_local_attention(query, key, value, block_size=self.block_size, mask=real)
