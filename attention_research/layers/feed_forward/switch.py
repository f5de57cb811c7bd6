"""The Switch layer, Fedus et al. 2021 (arXiv 2101.03961), section 2: each token through one of many feed-forwards."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels import switch_routing
from attention_research.layers.linear import Linear
from attention_research.parallel.rules import ROWS
from attention_research.parallel.scope import constrained
from attention_research.registry import Child, NonNegativeFloat, Positive, PositiveFloat

#: No expert has fewer places for a group of tokens (as Mesh TensorFlow).
FEWEST_PLACES = 4


class SwitchFeedForward(nnx.Module):
    """[B T D] -> [B T D]; a group of tokens is a row, for which an expert has T / num_experts * capacity_factor places.

    Padding is routed as tokens are. Gives each row's balance loss, times `balance_weight` (alpha of equation 4), to the
    task as aux["loss"], and the share of tokens without a place as aux["metrics"]. On a mesh with an `expert` axis each
    of its devices holds its share of the experts, and tokens travel to them and back.
    """

    def __init__(
        self,
        *,
        width: Positive,
        num_experts: Positive,
        expert: Child["feed_forward"] = "dense",
        capacity_factor: PositiveFloat = 1.25,
        balance_weight: NonNegativeFloat = 0.01,
        rngs: nnx.Rngs,
    ):
        self.num_experts, self.capacity_factor, self.balance_weight = num_experts, capacity_factor, balance_weight
        self.router = Linear(width, num_experts, use_bias=False, rngs=rngs)
        keys = jax.random.split(rngs.params(), num_experts)
        self.experts = jax.vmap(lambda key: expert(rngs=nnx.Rngs(key)))(keys)

    def __call__(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        places = max(int(x.shape[1] * self.capacity_factor / self.num_experts), FEWEST_PLACES)
        routing = switch_routing(self.router(x.astype(jnp.float32)), capacity=places)
        sent = jnp.einsum("BTEC,BTD->EBCD", routing.dispatch.astype(x.dtype), x)
        sent = constrained(constrained(sent, None, ROWS), "expert", ("data", "fsdp"))  # there and ...
        answers, _ = jax.vmap(lambda expert, x: expert(x))(self.experts, sent)
        answers = constrained(constrained(answers, "expert", ("data", "fsdp")), None, ROWS)  # ... back
        y = jnp.einsum("BTEC,EBCD->BTD", routing.combine.astype(x.dtype), answers)
        aux = {"loss": {"balance": self.balance_weight * routing.balance}, "metrics": {"dropped": routing.dropped}}
        return y, aux
