"""Self-attentions whose output is a sum of values with weights that the values do not change, without padding.

What the long-range variants share: a variant gives `attend`, its kernel on queries, keys and values of all heads. A
kernel that never forms its [T S] weights gives them all the same for values that are the rows of the identity; under
jit that runs only where somebody keeps the weights. Encoders alone: no cache, no cross-attention.
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
    """Multi-head self-attention over the keys that a mask [B 1 1 S] says are real; any other mask raises ValueError."""

    def attend(self, query: Queries, key: Keys, value: Values, real: Real | None) -> Contexts:
        """The variant's equation."""
        raise NotImplementedError

    def mix(self, query: Queries, key: Keys, value: Values, where: Where) -> tuple[Contexts, Weights]:
        """`attend`, and the weights [B N T T] that it gave."""
        real = keys_alone(where, type(self).__name__)
        (B, T, N), identity = key.shape[:3], jnp.eye(key.shape[1], dtype=value.dtype)
        rows = jnp.broadcast_to(identity[None, :, None], (B, T, N, T))
        weights = self.attend(query, key, rows, real).swapaxes(1, 2)
        return self.attend(query, key, value, real), weights
