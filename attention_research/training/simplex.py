"""Projects branch weights so that they sum to 1, Ahmed et al. 2017 (arXiv 1711.02132), section 3.1, after each update.

The projection is that of Mesh TensorFlow: z becomes relu(z) / sum(relu(z) + 1e-4), so the sum is slightly below 1.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import optax

from attention_research.signatures import Child

#: Matches the names of branch weights (`layers.attention.branched`).
WEIGHTS = re.compile(r"branches\.(kappa|alpha)$")


class Simplex:
    """Applies the updates of `inner`, then projects every parameter named branches.kappa or branches.alpha."""

    def __init__(self, *, inner: Child["optimizer"] = "adam"):
        self.inner = inner

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.chain(self.inner()(schedule), projected())


def projected() -> optax.GradientTransformation:
    """Changes the updates so that the updated branch weights are projected, separately for each layer (over the last
    axis).

    >>> parameters = {"branches.kappa": jnp.array([0.5, 0.5])}
    >>> updates, _ = projected().update({"branches.kappa": jnp.array([0.3, -0.1])}, None, parameters)
    >>> print(parameters["branches.kappa"] + updates["branches.kappa"])
    [0.67 0.33]
    """

    def one(name: str, update: jax.Array, parameter: jax.Array) -> jax.Array:
        if not WEIGHTS.search(name):
            return update
        z = jax.nn.relu(parameter + update)
        return z / jnp.sum(z + 1e-4, axis=-1, keepdims=True) - parameter

    def update(updates: dict[str, Any], state: Any, parameters: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        return {name: one(name, x, parameters[name]) for name, x in updates.items()}, state

    return optax.GradientTransformation(lambda parameters: optax.EmptyState(), update)
