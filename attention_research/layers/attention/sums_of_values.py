"""The base class of long-range self-attention variants: the output is linear in the values of non-padding positions.

A variant defines `attend`, its kernel on the queries, keys and values of all heads. Kernels that never form the weights
[T S] still provide them: applied to the rows of the identity as values, they return the weights. Under jit, this runs
only if the caller uses the weights. The variants are for encoders: they have no cache and no cross-attention.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool

from attention_research.layers.attention.multi_head import (
    Contexts,
    Keys,
    MultiHeadAttention,
    Queries,
    Values,
    Weights,
    Where,
    keys_alone,
)

Real = Bool[Array, "B S"]


class SumOfValues(MultiHeadAttention):
    """Multi-head self-attention over non-padding keys. Raises ValueError unless the mask has the shape [B 1 1 S]."""

    def attend(self, query: Queries, key: Keys, value: Values, real: Real | None) -> Contexts:
        """The equation of the variant."""
        raise NotImplementedError

    def mix(self, query: Queries, key: Keys, value: Values, where: Where) -> tuple[Contexts, Weights]:
        """Returns (the result of `attend`, its weights [B N T T])."""
        real = keys_alone(where, type(self).__name__)
        (B, T, N), identity = key.shape[:3], jnp.eye(key.shape[1], dtype=value.dtype)
        rows = jnp.broadcast_to(identity[None, :, None], (B, T, N, T))
        weights = self.attend(query, key, rows, real).swapaxes(1, 2)
        return self.attend(query, key, value, real), weights
