"""Scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T / sqrt(H)) V."""

from __future__ import annotations

from typing import Any, Literal

from attention_research.layers.attention.multi_head import MultiHeadAttention


class StandardAttention(MultiHeadAttention):
    """Scale 1/sqrt(H); `implementation` None lets the kernel choose (`kernels.explain_implementation` says which)."""

    def __init__(
        self,
        *,
        implementation: Literal["reference", "blockwise", "xla", "cudnn"] | None = None,
        **inherited: Any,
    ):
        super().__init__(**inherited)
        self.implementation = implementation
