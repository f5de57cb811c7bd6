"""Loop carries inside `jax.shard_map`, whose types must vary over the same mesh axes in every iteration.

Inside `shard_map`, an array that is equal on all devices of an axis has a different type than one that varies, and the
carry of a loop must have one type. Outside `shard_map`, these functions have no effect, and XLA removes them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array


def varying_zeros(like: Array) -> Array:
    """Zeros for the carry of a loop, which vary over the same mesh axes as `like`."""
    return jnp.where(jnp.zeros((), bool), like, jnp.zeros_like(like))


def vary_together(arrays: Any) -> Any:
    """The same arrays, each varying over all mesh axes over which any array of the tree varies.

    The gradient of an array that is equal on all devices is summed over the devices. `never` is False.
    """
    never = jnp.zeros((), bool)
    for array in jax.tree.leaves(arrays):
        never = never & array[(0,) * array.ndim].astype(bool)
    return jax.tree.map(lambda array: jnp.where(never, jnp.zeros_like(array), array), arrays)
