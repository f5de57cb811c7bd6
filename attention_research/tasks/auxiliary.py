"""What layers give to any task beside their outputs: auxiliary losses, and figures that are logged alone.

Both are found wherever a layer of the model has returned them in its aux, each [... B] (layers, rows): losses under
"loss", such as the balance of experts or the cost of pondering, figures under "metrics", such as the share of tokens
that experts dropped. A row counts as many times as it has non-padding tokens, so that the mean over tokens is the mean
over rows so weighted, and a batch in parts, or on several devices, gives what the whole one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.layers.running_statistics import UPDATES, flat_updates


def auxiliary_loss(aux: Mapping[str, Any], mask: Bool[Array, "B T"]) -> Float[Array, ""] | None:
    """The sum of all losses of a model's aux; None where there is none."""
    rows = [jnp.sum(x, axis=0) for found in _named(aux, "loss").values() for x in found]
    return _over_tokens(sum(rows[1:], rows[0]), mask) if rows else None


def auxiliary_sums(aux: Mapping[str, Any], mask: Bool[Array, "B T"]) -> dict[str, Float[Array, ""]]:
    """For the log: every loss and every figure by its name, a loss summed over the layers, a figure their mean."""
    losses = {name: jnp.sum(jnp.concatenate(found), axis=0) for name, found in _named(aux, "loss").items()}
    figures = {name: jnp.mean(jnp.concatenate(found), axis=0) for name, found in _named(aux, "metrics").items()}
    return {name: _over_tokens(rows, mask) for name, rows in {**losses, **figures}.items()}


def running_updates(aux: Mapping[str, Any]) -> dict[str, Any]:
    """{"updates": name -> what takes a running statistic's place}, {} where a model has none: for the step alone."""
    return {UPDATES: flat_updates(aux[UPDATES])} if aux.get(UPDATES) else {}


def _named(aux: Mapping[str, Any], kind: str) -> dict[str, list[Float[Array, "L B"]]]:
    """Name -> what stands under it, below a `kind`."""
    named: dict[str, list[Array]] = {}
    for path, x in jax.tree_util.tree_flatten_with_path(aux)[0]:
        keys: list[Any] = [getattr(entry, "key", None) for entry in path]
        if kind in keys:
            named.setdefault(keys[-1], []).append(x.reshape(-1, x.shape[-1]))
    return named


def _over_tokens(rows: Float[Array, "B"], mask: Bool[Array, "B T"]) -> Float[Array, ""]:
    return jnp.sum(rows * jnp.sum(mask, axis=1, dtype=jnp.float32))
