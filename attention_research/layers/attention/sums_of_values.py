"""The base class of long-range self-attention variants: the output is linear in the values of non-padding positions.

A variant defines `attend`, its kernel on the queries, keys and values of all heads. Kernels that never form the weights
[T S] still provide them (`layers.attention.where.weights_of`). The variants are for encoders: they have no cache and no
cross-attention.
"""

from __future__ import annotations

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
    weights_of,
)

Real = Bool[Array, "B S"]


class SumOfValues(MultiHeadAttention):
    """Multi-head self-attention over non-padding keys. Raises ValueError unless the mask has the shape [B 1 1 S]."""

    cost = (None, 1)

    def attend(self, query: Queries, key: Keys, value: Values, real: Real | None) -> Contexts:
        """The equation of the variant."""
        raise NotImplementedError

    def mix(self, query: Queries, key: Keys, value: Values, where: Where) -> tuple[Contexts, Weights]:
        """Returns (the result of `attend`, its weights [B N T T])."""
        real = keys_alone(where, type(self).__name__)
        weights = weights_of(lambda rows: self.attend(query, key, rows, real), key, value.dtype)
        return self.attend(query, key, value, real), weights
