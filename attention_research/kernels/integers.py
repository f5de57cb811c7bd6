"""Conversion of integer arguments of kernels: ids, positions, lengths, distances, buckets."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int


def as_int32(name: str, numbers: Any) -> Int[Array, "*A"]:
    """Converts integers of any dtype to int32, because sums and comparisons in small dtypes such as uint8 wrap around.

    Raises ValueError naming the argument if they are not integers, because a float id or length would be truncated.

    >>> as_int32("lengths", jnp.array([250], jnp.uint8)) + 10
    Array([260], dtype=int32)
    """
    dtype = jnp.result_type(numbers)
    if not jnp.issubdtype(dtype, jnp.integer):
        raise ValueError(f"{name}: expected integers, got {dtype}")
    return jnp.asarray(numbers).astype(jnp.int32)
