"""Scaled dot-product attention, Vaswani et al. 2017, equation 1: softmax(Q K^T / sqrt(H)) V."""

from __future__ import annotations

from typing import Any, Literal

from attention_research.layers.attention.normalized_heads import NormalizedHeads


class StandardAttention(NormalizedHeads):
    """Multi-head attention with scale 1/sqrt(H).

    With `implementation` None, the kernel chooses (`kernels.explain_implementation` shows its choice).

    >>> from flax import nnx
    >>> layer = StandardAttention(width=8, num_heads=2, head_width=None, rngs=nnx.Rngs(0))
    >>> y, collected = layer(jnp.ones((1, 3, 8)), is_causal=True)
    >>> y.shape, collected["attention_weights"].shape
    ((1, 3, 8), (1, 2, 3, 3))
    """

    def __init__(
        self,
        *,
        implementation: Literal["reference", "blockwise", "xla", "cudnn"] | None = None,
        **inherited: Any,
    ):
        super().__init__(**inherited)
        self.implementation = implementation
