"""A generator that selects every word, so that the encoder reads the whole text."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.models.rationales.selection import Selected
from attention_research.signatures import Given


class EveryWord(nnx.Module):
    """Selects every word."""

    def __init__(self, *, input_width: Given[int], rngs: nnx.Rngs):
        del input_width, rngs  # it has no parameters

    def __call__(
        self,
        x: Float[Array, "B S E"],
        real: Bool[Array, "B S"],
        *,
        key: Key[Array, ""] | None = None,
        selected: Bool[Array, "B S"] | None = None,
    ) -> Selected:
        """(infinite scores, the mask of all non-padding words)."""
        del key, selected
        return jnp.full(real.shape, jnp.inf, x.dtype), real
