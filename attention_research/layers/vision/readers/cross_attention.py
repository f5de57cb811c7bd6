"""Words read an image by cross-attention over its cells (Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attention_research.kernels.masks import padding_mask
from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.signatures import Child


class CrossAttentionReader(nnx.Module):
    """Cross-attention with the states of the words as queries and the cells of the image as keys and values."""

    def __init__(self, *, cross_attention: Child["cross_attention", "self_attention"], rngs: nnx.Rngs):
        self.cross_attention = cross_attention(rngs=rngs)
        self.shared = owned_by_stack(cross_attention, rngs)

    def __call__(
        self, words: Float[Array, "B T D"], cells: Float[Array, "B S D"]
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Returns (the context of each word, {"attention_weights": [B N T S]})."""
        everywhere: Bool[Array, "B 1 1 S"] = padding_mask(jnp.ones(cells.shape[:2], bool))
        return self.cross_attention(words, cells, mask=everywhere, shared=self.shared)
