"""Collects auxiliary losses and logged figures from the aux of a model, for any task.

A layer returns them in its aux with shape [... B] (layers, rows): losses under "loss", such as the load balance of
experts or the ponder cost, and figures under "metrics", such as the fraction of tokens dropped by experts. Each row is
weighted by its number of non-padding tokens. Means over tokens are therefore the same for a whole batch, a batch in
parts and a batch on several devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.layers.running_statistics import UPDATES, flat_updates


def auxiliary_loss(aux: Mapping[str, Any], mask: Bool[Array, "B T"]) -> Float[Array, ""] | None:
    """The sum of all auxiliary losses in the aux of a model, or None if there are none."""
    rows = [jnp.sum(x, axis=0) for found in _named(aux, "loss").values() for x in found]
    return _over_tokens(sum(rows[1:], rows[0]), mask) if rows else None


def auxiliary_sums(aux: Mapping[str, Any], mask: Bool[Array, "B T"]) -> dict[str, Float[Array, ""]]:
    """Every auxiliary loss and figure by its name, for logging. Losses are summed over the layers; figures are
    averaged."""
    losses = {name: jnp.sum(jnp.concatenate(found), axis=0) for name, found in _named(aux, "loss").items()}
    figures = {name: jnp.mean(jnp.concatenate(found), axis=0) for name, found in _named(aux, "metrics").items()}
    return {name: _over_tokens(rows, mask) for name, rows in {**losses, **figures}.items()}


def with_auxiliary(
    total: Float[Array, ""], sums: Mapping[str, Array], aux: Mapping[str, Any], mask: Bool[Array, "B T"]
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """(the loss with the auxiliary losses of the aux; the sums with each of them, their sum, and the figures)."""
    named, extra = auxiliary_sums(aux, mask), auxiliary_loss(aux, mask)
    if extra is None:
        return total, {**sums, **named}
    return total + extra, {**sums, **named, "auxiliary_loss": extra}


def running_updates(aux: Mapping[str, Any]) -> dict[str, Any]:
    """{"updates": name -> new value of a running statistic} for the train step, or {} if the model has none."""
    return {UPDATES: flat_updates(aux[UPDATES])} if aux.get(UPDATES) else {}


def _named(aux: Mapping[str, Any], kind: str) -> dict[str, list[Float[Array, "L B"]]]:
    """Name -> arrays with this name below an entry `kind`."""
    named: dict[str, list[Array]] = {}
    for path, x in jax.tree_util.tree_flatten_with_path(aux)[0]:
        keys: list[Any] = [getattr(entry, "key", None) for entry in path]
        if kind in keys:
            named.setdefault(keys[-1], []).append(x.reshape(-1, x.shape[-1]))
    return named


def _over_tokens(rows: Float[Array, "B"], mask: Bool[Array, "B T"]) -> Float[Array, ""]:
    return jnp.sum(rows * jnp.sum(mask, axis=1, dtype=jnp.float32))
