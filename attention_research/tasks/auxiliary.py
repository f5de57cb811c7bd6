"""Auxiliary losses: what layers add to any task's loss, found wherever a layer of the model has returned it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def auxiliary_loss(aux: Mapping[str, Any], mask: Bool[Array, "B T"]) -> Float[Array, ""] | None:
    """The sum of all entries under a "loss" of a model's aux, each [... B] (layers, rows); None where there is none.

    A row counts as many times as it has real tokens, so that the mean over tokens is the mean over rows so weighted,
    and a batch in parts, or on several devices, gives what the whole one does.
    """
    rows = [
        jnp.sum(x.reshape(-1, x.shape[-1]), axis=0)
        for path, x in jax.tree_util.tree_flatten_with_path(aux)[0]
        if any(getattr(key, "key", None) == "loss" for key in path)
    ]
    return jnp.sum(sum(rows) * jnp.sum(mask, axis=1, dtype=jnp.float32)) if rows else None
