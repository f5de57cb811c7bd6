"""The stack of a prefix language model: source positions attend to the whole source (Raffel et al. 2020, figure 3)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool

from attention_research.models.prompted_stack import PromptedStack
from attention_research.signatures import Child


class PrefixStack(PromptedStack):
    """A `PromptedStack` with bidirectional attention within the source."""

    def __init__(self, *, self_attention: Child["prefix_attention"], **inherited: Any):
        super().__init__(self_attention=self_attention, **inherited)

    def _seen(self, mask: Bool[Array, "B 1 1 T"], prompt: int) -> dict[str, Any]:
        """The inputs of the self-attention: keys at or before the query, and the whole source."""
        place = jnp.arange(mask.shape[-1])
        seen = mask & ((place[None, :] <= place[:, None]) | (place[None, :] < prompt))
        return {"mask": seen, "is_causal": False, "shared": self.shared}
