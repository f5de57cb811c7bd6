"""Checks of the arguments of score functions: queries and keys of one floating dtype."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.shapes import check_shapes


def check_scores(query: tuple[Array, str], keys: tuple[Array, str], **weights: tuple[Array, str]) -> dict[str, int]:
    """`check_shapes`, and checks that queries and keys have one floating dtype. ValueError names the argument."""
    sizes = check_shapes(query=query, keys=keys, **weights)
    if not jnp.issubdtype(query[0].dtype, jnp.floating):
        raise ValueError(f"query: expected floating point, got {query[0].dtype}")
    if keys[0].dtype != query[0].dtype:
        raise ValueError(f"keys: expected the query's dtype {query[0].dtype}, got {keys[0].dtype}")
    return sizes
