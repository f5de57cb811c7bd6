"""The stack of a prefix language model: all of the source sees all of the source (Raffel et al. 2020, figure 3)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool

from attention_research.models.prompted_stack import PromptedStack
from attention_research.registry import Child, Positive, Rate


class PrefixStack(PromptedStack):
    """A `PromptedStack` without causality within its first positions."""

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        dropout_rate: Rate,
        self_attention: Child["prefix_attention"],
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("norm", "self_attention", "dropout", "residual"),
            ("norm", "feed_forward", "dropout", "residual"),
        ),
        final_norm: bool = True,
        unroll: bool = False,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        super().__init__(
            width=width, num_layers=num_layers, dropout_rate=dropout_rate, self_attention=self_attention,
            feed_forward=feed_forward, norm=norm, positions=positions, steps=steps, final_norm=final_norm,
            unroll=unroll, remat=remat, rngs=rngs,
        )  # fmt: skip

    def _seen(self, mask: Bool[Array, "B 1 1 T"], prompt: int) -> dict[str, Any]:
        """Keys at or before the query, and all of the source."""
        place = jnp.arange(mask.shape[-1])
        seen = mask & ((place[None, :] <= place[:, None]) | (place[None, :] < prompt))
        return {"mask": seen, "is_causal": False, "shared": self.shared}
