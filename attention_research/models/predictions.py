"""The most probable token at each position, for tasks that count right predictions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def predicted(vocabulary: Any, hidden: Float[Array, "B T D"]) -> Int[Array, "B T"]:
    """argmax_v p(v) at each position. Under `jax.jit`, it costs nothing if the result is not used."""
    log_p = vocabulary.log_probabilities(hidden.reshape(-1, hidden.shape[-1]))
    return jnp.argmax(log_p, axis=-1).reshape(hidden.shape[:-1])
