"""Self-attention of a decoder without its causal mask: what the mask is for, shown by leaving it out.

Every position sees the whole target, also the token that it has to predict: the training loss falls by copying, and in
decoding, where nothing lies ahead yet, the model has not learned to predict. For ablations only.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from attention_research.layers.attention.standard import StandardAttention


class UnmaskedAttention(StandardAttention):
    """Equation 1 of Vaswani et al. 2017 without section 3.2.3's mask: `is_causal` is ignored, any other mask is not."""

    def mix(
        self,
        query: Float[Array, "B T N H"],
        key: Float[Array, "B S N H"],
        value: Float[Array, "B S N Hv"],
        *,
        is_causal: bool = False,
        **where: Any,
    ) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N T S"]]:
        """Equation 1 over the whole target, padding included where the decoder gives no mask for it."""
        del is_causal
        return super().mix(query, key, value, **where)
