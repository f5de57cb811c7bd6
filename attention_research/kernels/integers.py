"""Whole numbers that a kernel is given: ids, positions, lengths, distances, buckets."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int


def as_int32(name: str, numbers: Any) -> Int[Array, "*A"]:
    """The numbers as int32, whatever integer dtype they come in: a sum or comparison in uint8 would wrap around.

    Raises ValueError naming the argument where they are not integers: a float length or id would be truncated.

    >>> as_int32("lengths", jnp.array([250], jnp.uint8)) + 10
    Array([260], dtype=int32)
    """
    dtype = jnp.result_type(numbers)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"{name}: expected integers, got {dtype}")
    return jnp.asarray(numbers).astype(jnp.int32)
