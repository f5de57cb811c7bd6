"""The Switch layer, Fedus et al. 2021 (arXiv 2101.03961), section 2: one of several feed-forwards for each token."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels import switch_routing
from attention_research.layers.feed_forward.experts import FEWEST_PLACES, Experts
from attention_research.signatures import Child, NonNegativeFloat, PositiveFloat


class SwitchFeedForward(Experts):
    """The Switch layer, [B T D] -> [B T D]. Each row of T tokens is routed separately.

    An expert has T / num_experts * `capacity_factor` places for a row. Padding tokens (`real` False) take no place and
    are not counted. aux["loss"] holds the balance loss of each row times `balance_weight` (alpha of equation 4), and
    aux["metrics"] the share of tokens without a place.
    """

    def __init__(
        self,
        *,
        expert: Child["feed_forward"] = "dense",
        capacity_factor: PositiveFloat = 1.25,
        balance_weight: NonNegativeFloat = 0.01,
        **inherited: Any,
    ):
        super().__init__(expert=expert, **inherited)
        self.capacity_factor, self.balance_weight = capacity_factor, balance_weight

    def __call__(
        self, x: Float[Array, "B T D"], *, real: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        places = max(int(x.shape[1] * self.capacity_factor / self.num_experts), FEWEST_PLACES)
        routing = switch_routing(self.router(x.astype(jnp.float32)), capacity=places, real=real)
        aux = {"loss": {"balance": self.balance_weight * routing.balance}, "metrics": {"dropped": routing.dropped}}
        return self.through(routing, x), aux
