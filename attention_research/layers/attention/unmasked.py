"""Self-attention of a decoder without its causal mask: what the mask is for, shown by leaving it out.

Every position sees the whole target, also the token that it has to predict: the training loss falls by copying, and in
decoding, where nothing lies ahead yet, the model has not learned to predict. For ablations only.
"""

from __future__ import annotations

from jaxtyping import Array

from attention_research.layers.attention.multi_head import Where
from attention_research.layers.attention.standard import StandardAttention


class UnmaskedAttention(StandardAttention):
    """Equation 1 of Vaswani et al. 2017 without section 3.2.3's mask: `is_causal` is ignored, any other mask is not."""

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """Equation 1 over the whole target, padding included where the decoder gives no mask for it."""
        return super().mix(query, key, value, where._replace(is_causal=False))
