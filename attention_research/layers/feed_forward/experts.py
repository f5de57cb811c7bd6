"""Base classes of expert layers, after Shazeer et al. 2018 (arXiv 1811.02084) and Lepikhin et al. 2020 (2006.16668).

`Experts` owns a router and experts. It sends groups of tokens to the experts and combines the outputs;
`kernels.experts` assigns tokens to the places of the experts. `GroupedExperts` forms groups of about 1,024 tokens, as
the released code of Mesh TensorFlow does. Its subclasses define the routing.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.kernels import Routing
from attention_research.layers.feed_forward.nested import nested_output
from attention_research.layers.linear import Linear
from attention_research.parallel.rules import ROWS
from attention_research.parallel.scope import axis_size, constrained
from attention_research.signatures import Child, NonNegativeFloat, Positive, PositiveFloat

#: The minimum number of places of an expert for a group of tokens, as in Mesh TensorFlow.
FEWEST_PLACES = 4


class Experts(nnx.Module):
    """A router [D E] without bias and `num_experts` feed-forwards, whose arrays have a leading axis [E ...].

    On a mesh with an `expert` axis, each device along the axis holds its share of the experts, and tokens are sent to
    the experts' devices and back.
    """

    #: The call takes the mask of `real` (non-padding) tokens (`layers.block`).
    takes_real = True

    def __init__(self, *, width: Positive, num_experts: Positive, expert: Child["feed_forward"], rngs: nnx.Rngs):
        self.num_experts = num_experts
        self.router = Linear(width, num_experts, use_bias=False, rngs=rngs)
        keys = jax.random.split(rngs.params(), num_experts)
        self.experts = jax.vmap(lambda key: expert(rngs=nnx.Rngs(key)))(keys)

    def through(self, routing: Routing, x: Float[Array, "G S D"]) -> Float[Array, "G S D"]:
        """The sum, over the places of each token, of the gate times the output of the expert.

        Raises ConfigError if an expert returns an aux, as another expert layer does (`nested_output`)."""
        sent = jnp.einsum("GSEC,GSD->EGCD", routing.dispatch.astype(x.dtype), x)
        sent = _split(_split(sent, None, ROWS), "expert", ("data", "fsdp"))  # to the experts
        answer = lambda expert, x: nested_output(expert, x, setting="feed_forward.expert", layer="experts")
        answers = jax.vmap(answer)(self.experts, sent)
        answers = _split(_split(answers, "expert", ("data", "fsdp")), None, ROWS)  # and back
        return jnp.einsum("GSEC,EGCD->GSD", routing.combine.astype(x.dtype), answers)


def _split(x: Float[Array, "E G C D"], experts: str | None, groups: tuple[str, ...]) -> Float[Array, "E G C D"]:
    """Shards x over these mesh axes. If they do not divide the number of groups, the groups are not sharded."""
    divides = x.shape[1] % math.prod(map(axis_size, groups)) == 0
    return constrained(x, experts, groups if divides else None)


def number_of_groups(tokens: int, group_size: int, num_replicas: int = 1) -> int:
    """The smallest number of equal groups that is at least tokens // group_size and a multiple of `num_replicas`.

    This is Mesh TensorFlow's rule. If `num_replicas` does not divide the number of tokens, as in a decoding step, the
    greatest common divisor of the two replaces it.

    >>> number_of_groups(128 * 512, 1024, 32), number_of_groups(128 * 114, 1024, 32)
    (64, 32)
    """
    multiple = math.gcd(tokens, num_replicas)
    first = -(-max(1, tokens // group_size) // multiple) * multiple
    return next(groups for groups in range(first, tokens + 1, multiple) if tokens % groups == 0)


class GroupedExperts(Experts):
    """Experts over groups of about `group_size` tokens, [B T D] -> [B T D]. Groups are formed from consecutive rows.

    For a group of S tokens, an expert has S / num_experts * `capacity_factor` places in training (with a random key)
    and S / num_experts * `evaluation_capacity_factor` places without a key, but at least 4 and at most S. A group may
    hold several rows, whose non-padding tokens compete for places; if tokens are dropped, the output of a row depends
    on the other rows of the batch. The number of groups is a multiple of `num_replicas`, the number of devices over
    which rows are sharded, so that each group is on one device.

    aux["loss"] holds the balance loss times `balance_weight`, and aux["metrics"] the share of tokens without a place.
    The value of a row is the mean over the groups of its tokens.
    """

    #: The call takes a random `key` (`layers.block`).
    takes_key = True

    def __init__(
        self,
        *,
        expert: Child["feed_forward"] = "dense",
        capacity_factor: PositiveFloat = 1.25,
        evaluation_capacity_factor: PositiveFloat = 2.0,
        group_size: Positive = 1024,
        num_replicas: Positive = 1,
        balance_weight: NonNegativeFloat = 0.01,
        **inherited: Any,
    ):
        super().__init__(expert=expert, **inherited)
        self.capacity_factor, self.evaluation_capacity_factor = capacity_factor, evaluation_capacity_factor
        self.group_size, self.num_replicas, self.balance_weight = group_size, num_replicas, balance_weight

    def route(
        self, x: Float[Array, "G S D"], capacity: int, key: Key[Array, ""] | None, real: Bool[Array, "G S"] | None
    ) -> Routing:
        """The routing of the variant. x is float32."""
        raise NotImplementedError

    def __call__(
        self, x: Float[Array, "B T D"], *, key: Key[Array, ""] | None = None, real: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """Applies the experts. With a key it runs as in training. Tokens with `real` False take no place."""
        tokens = x.shape[0] * x.shape[1]
        groups = number_of_groups(tokens, self.group_size, self.num_replicas)
        grouped = x.reshape(groups, tokens // groups, x.shape[-1])
        factor = self.evaluation_capacity_factor if key is None else self.capacity_factor
        places = min(grouped.shape[1], int(grouped.shape[1] * factor / self.num_experts))
        own = None if real is None else real.reshape(grouped.shape[:2])
        routing = self.route(grouped.astype(jnp.float32), max(places, FEWEST_PLACES), key, own)

        def of_rows(value: Float[Array, "G"]) -> Float[Array, "B"]:
            of_tokens = jnp.broadcast_to(value[:, None], grouped.shape[:2])
            return jnp.mean(of_tokens.reshape(x.shape[:2]), axis=1)

        balance, dropped = self.balance_weight * of_rows(routing.balance), of_rows(routing.dropped)
        y = self.through(routing, grouped).reshape(x.shape)
        return y, {"loss": {"balance": balance}, "metrics": {"dropped": dropped}}
