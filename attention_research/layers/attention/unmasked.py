"""Decoder self-attention without the causal mask, an ablation that shows the purpose of the mask.

Every position attends to the whole target, including the token that it has to predict. The training loss decreases by
copying, and the model does not learn to predict, so that decoding fails.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.standard import StandardAttention


class UnmaskedAttention(StandardAttention):
    """Equation 1 of Vaswani et al. 2017 without the mask of section 3.2.3: ignores `is_causal`. Other masks apply."""

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equation 1 over the whole target, including padding if the decoder passes no mask for it."""
        return super().mix(query, key, value, where._replace(is_causal=False))
