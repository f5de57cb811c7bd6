"""Scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T / sqrt(H)) V."""

from __future__ import annotations

from typing import Any, Literal

from attention_research.layers.attention.multi_head import MultiHeadAttention


class StandardAttention(MultiHeadAttention):
    """Multi-head attention with scale 1/sqrt(H).

    With `implementation` None, the kernel chooses (`kernels.explain_implementation` shows its choice).
    """

    def __init__(
        self,
        *,
        implementation: Literal["reference", "blockwise", "xla", "cudnn"] | None = None,
        **inherited: Any,
    ):
        super().__init__(**inherited)
        self.implementation = implementation
