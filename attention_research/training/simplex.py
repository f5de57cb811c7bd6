"""Weights of branches that sum to 1, Ahmed et al. 2017 (arXiv 1711.02132), section 3.1: a projection after each update.

As Mesh TensorFlow does it: z becomes relu(z) / sum(relu(z) + 1e-4), so that the sum is just below 1.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import optax

from attention_research.signatures import Child

#: The weights of branches (`layers.attention.branched`), by the end of their names.
WEIGHTS = re.compile(r"branches\.(kappa|alpha)$")


class Simplex:
    """The updates of `inner`, then the projection of every parameter called branches.kappa or branches.alpha."""

    def __init__(self, *, inner: Child["optimizer"] = "adam"):
        self.inner = inner

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.chain(self.inner()(schedule), projected())


def projected() -> optax.GradientTransformation:
    """Changes updates so that the updated weights are projected, each layer's (the last axis) on its own."""

    def one(name: str, update: jax.Array, parameter: jax.Array) -> jax.Array:
        if not WEIGHTS.search(name):
            return update
        z = jax.nn.relu(parameter + update)
        return z / jnp.sum(z + 1e-4, axis=-1, keepdims=True) - parameter

    def update(updates: dict[str, Any], state: Any, parameters: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        return {name: one(name, x, parameters[name]) for name, x in updates.items()}, state

    return optax.GradientTransformation(lambda parameters: optax.EmptyState(), update)
