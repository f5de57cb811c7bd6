"""Random Synthesizer mixed with dot products, Tay et al. 2020 (arXiv 2005.00743), section 3.4, as released.

softmax((1 - a) Q K^T + a R) V, where a = sigmoid(alpha), with one alpha per layer, initialized to 0
(`synthesizer_plus`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.layers.attention.random_plus import RandomSynthesizerPlus
from attention_research.layers.attention.synthesizer_plus import learned_shares


class RandomSynthesizerPlusAlpha(RandomSynthesizerPlus):
    """A learned mixture of Random Synthesizer scores and dot products. Parameters: 4 D N H + N max_length^2 + 1."""

    def __init__(self, **inherited: Any):
        super().__init__(**inherited)
        self.alpha = nnx.Param(jnp.zeros((), jnp.float32))

    def shares(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns (1 - a, a)."""
        return learned_shares(self.alpha[...])
