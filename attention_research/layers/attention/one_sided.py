"""Causal self-attention in an encoder, an ablation that measures the value of bidirectional context.

A position attends to itself and to earlier positions, as in Vaswani et al. 2017, section 3.2.3. Devlin et al. 2019,
section 5.1, compare BERT with such a model.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.relative_bias import RelativeBiasAttention
from attention_research.layers.attention.standard import StandardAttention


class OneSided:
    """Always causal, whatever `is_causal` is. Other masks apply too."""

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """The attention of the other base class with a causal mask."""
        return super().mix(query, key, value, where._replace(is_causal=True))  # type: ignore[misc]  # of the other base


class OneSidedAttention(OneSided, StandardAttention):
    """Equation 1 of Vaswani et al. 2017, always causal, whatever `is_causal` is. Other masks apply too."""


class OneSidedRelativeBias(OneSided, RelativeBiasAttention):
    """A learned bias for each clipped distance, always causal: the one-sided form of `relative_bias`."""
