"""In which precision kernels sum."""

from __future__ import annotations

import jax.numpy as jnp


def accumulator(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of logits, softmax, statistics and sums: float32, or float64 for float64 inputs."""
    return jnp.dtype(jnp.float64 if dtype == jnp.float64 else jnp.float32)
