"""Normalized queries and keys, Dehghani et al. 2023 (arXiv 2302.05442), section 2: softmax(N(Q) N(K)^T / sqrt(H)) V.

The norm N is over the width of a head. Its gain [H] is shared by the heads. ViT-22B has a layer norm without a bias
("layer"). Qwen3 and Gemma 3 have a root mean square norm ("rms"), in front of rotary positions. OLMo 2, which
normalizes all heads together, and Chameleon, whose layer norm has a gain and a bias for each head, differ.
"""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.variants.query_key_norm import normalized
from attention_research.layers.attention.multi_head import MultiHeadAttention


class NormalizedHeads(MultiHeadAttention):
    """Attention with an optional `query_key_norm` of queries and keys. A cache holds normalized keys."""

    def __init__(self, *, query_key_norm: Literal["none", "rms", "layer"] = "none", rngs: nnx.Rngs, **inherited: Any):
        super().__init__(rngs=rngs, **inherited)
        self.query_key_norm = query_key_norm
        gain = lambda there: nnx.Param(jnp.ones((self.head_width,), jnp.float32)) if there else None
        self.query_scale = gain(query_key_norm != "none")
        self.key_scale = gain(query_key_norm != "none" and "key" in self.projected)

    def _normalized(self, x: Array, scale: nnx.Param | None) -> Array:
        return x if scale is None else normalized(x, scale[...], center=self.query_key_norm == "layer")

    def queries(self, x: Float[Array, "B T D"]) -> Float[Array, "B T N H"]:
        """The normalized queries."""
        return self._normalized(super().queries(x), self.query_scale)

    def keys_values(self, x: Float[Array, "B S D"]) -> tuple[Float[Array, "B S K H"], Float[Array, "B S K Hv"]]:
        """The normalized keys, and the values."""
        key, value = super().keys_values(x)
        return self._normalized(key, self.key_scale), value
