"""Values that vary over mesh axes: what `jax.shard_map` demands of the carries of loops inside it.

An array that is the same on all devices of an axis is of another type there than one that differs; a loop's carry
must have one type. Outside `shard_map` nothing here does anything: XLA folds it away.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array


def varying_zeros(like: Array) -> Array:
    """Zeros for a loop's carry that vary over the mesh axes that `like` varies over."""
    return jnp.where(jnp.zeros((), bool), like, jnp.zeros_like(like))


def vary_together(arrays: Any) -> Any:
    """The same values, each varying over all mesh axes that any array of the tree varies over.

    It sums the gradient of an array that is the same on all devices over them. `never` is False.
    """
    never = jnp.zeros((), bool)
    for array in jax.tree.leaves(arrays):
        never = never & array[(0,) * array.ndim].astype(bool)
    return jax.tree.map(lambda array: jnp.where(never, jnp.zeros_like(array), array), arrays)
