"""BERT's vocabulary with its masked language model head, Devlin et al. 2019, following the released code.

One table embeds tokens without a scale. The head applies a dense layer, the exact GELU and a norm N to hidden states
before the product with the table: logits = N(gelu(h W + c)) table^T + b.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.embeddings.unscaled import UnscaledVocabulary
from attention_research.layers.linear import Linear
from attention_research.signatures import Child, Positive


class BertVocabulary(UnscaledVocabulary):
    """BERT's vocabulary. Owns the table [V D]; W [D D], c and the norm of the head; and the bias b [V]."""

    def __init__(self, *, width: Positive, norm: Child["norm"], rngs: nnx.Rngs, **inherited: Any):
        super().__init__(width=width, rngs=rngs, **inherited)
        self.transform = Linear(width, width, rngs=rngs)
        self.norm = norm(rngs=rngs)

    def logits(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B V"]:
        """The logits of hidden states of the encoder, in float32."""
        return super().logits(self._transformed(hidden))

    def log_likelihood(self, hidden: Float[Array, "B T D"], targets: Int[Array, "B T"]) -> dict[str, Array]:
        """Per-token "log_likelihood", "smooth_log_likelihood" and "log_normalizer", [B T]."""
        return super().log_likelihood(self._transformed(hidden), targets)

    def _transformed(self, hidden: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        return self.norm(jax.nn.gelu(self.transform(hidden), approximate=False))
