"""The Switch layer, Fedus et al. 2021 (arXiv 2101.03961), section 2: each token through one of many feed-forwards."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels import switch_routing
from attention_research.layers.feed_forward.experts import FEWEST_PLACES, Experts
from attention_research.signatures import Child, NonNegativeFloat, PositiveFloat


class SwitchFeedForward(Experts):
    """[B T D] -> [B T D]; a group of tokens is a row, for which an expert has T / num_experts * capacity_factor places.

    Where `real` is False a token is padding: it takes no place and is not counted. Gives each row's balance loss, times
    `balance_weight` (alpha of equation 4), to the task as aux["loss"], and the share of tokens without a place as
    aux["metrics"].
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
