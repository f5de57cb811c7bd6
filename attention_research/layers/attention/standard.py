"""Scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T / sqrt(H)) V."""

from __future__ import annotations

from typing import Any, Literal

from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import attention_weights, dot_product_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.registry import Positive


class StandardAttention(MultiHeadAttention):
    """Scale 1/sqrt(H); `implementation` None lets the kernel choose (`kernels.explain_implementation` says which)."""

    def __init__(
        self,
        *,
        width: Positive,
        num_heads: Positive,
        head_width: Positive | None,
        value_head_width: Positive | None = None,
        use_bias: bool = True,
        implementation: Literal["reference", "blockwise", "xla", "cudnn"] | None = None,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_heads=num_heads, head_width=head_width, value_head_width=value_head_width,
            use_bias=use_bias, rngs=rngs,
        )  # fmt: skip
        self.implementation = implementation

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        mask: Any = None,
        is_causal: bool = False,
        offset: Any = 0,
        shared: nnx.Module | None = None,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """Equation 1 (offset and shared play no part)."""
        del offset, shared
        where = {"mask": mask, "is_causal": is_causal}
        context = dot_product_attention(query, key, value, **where, implementation=self.implementation)
        return context, attention_weights(query, key, **where)
