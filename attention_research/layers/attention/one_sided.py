"""Self-attention of an encoder with a decoder's mask: what two-sided context is worth, shown by taking a side away.

A position sees what stands before it and itself, as in Vaswani et al. 2017, section 3.2.3; BERT (Devlin et al. 2019,
section 5.1) is compared with such a model. For ablations only.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.standard import StandardAttention


class OneSidedAttention(StandardAttention):
    """Equation 1 of Vaswani et al. 2017, causal whatever `is_causal` says; another mask is kept."""

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equation 1 over the past."""
        return super().mix(query, key, value, where._replace(is_causal=True))
