"""Kernels one query at a time: the query's position is `query_offset`, and all keys are passed at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array


def by_steps(function: Callable[..., Array], *along: str) -> Callable[..., Array]:
    """`function` of one query after the other. `along` are the arguments with one row a query, on axis 1."""
    along = along or ("query",)

    def one_by_one(**inputs: Any) -> Array:
        rows = {name: inputs.pop(name) for name in along}

        def step(i: Array) -> Array:
            now = {name: lax.dynamic_slice_in_dim(x, i, 1, axis=1) for name, x in rows.items()}
            return function(**now, **inputs, query_offset=i)[:, 0]

        length = next(iter(rows.values())).shape[1]
        return jnp.moveaxis(lax.map(step, jnp.arange(length, dtype=jnp.int32)), 0, 1)

    return one_by_one
