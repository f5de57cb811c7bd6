"""Reformer LSH attention, Kitaev, Kaiser & Levskaya 2020 (arXiv 2001.04451): attention within hash buckets.

Queries are also the keys, k = q / |q|, so that there is no key projection. Each layer draws the random rotations of the
hash at initialization and keeps them as a constant statistic; the paper draws them at every call. The reversible
residuals of the paper are not part of this layer (see `kernels.efficient.reversible`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attention_research.kernels.efficient import lsh_attention, lsh_buckets
from attention_research.layers.attention.sums_of_values import SumOfValues
from attention_research.signatures import Positive


class ReformerAttention(SumOfValues):
    """LSH attention with `num_rounds` rounds of hashing into 2 * `half_buckets` buckets.

    Positions are sorted by bucket and split into chunks of `chunk_size`.
    """

    projected = ("query", "value")

    def __init__(
        self,
        *,
        chunk_size: Positive = 64,
        half_buckets: Positive = 16,
        num_rounds: Positive = 1,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(value_head_width=None, num_key_value_heads=None, rngs=rngs, **inherited)
        self.chunk_size = chunk_size
        shape = (self.head_width, num_rounds, half_buckets)
        self.rotations = nnx.BatchStat(jax.random.normal(rngs.params(), shape, jnp.float32))

    def keys_values(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T N H"], Float[Array, "B T N H"]]:
        """Returns (the queries, the projected values), split into heads."""
        return self.queries(x), self.value(x).reshape(*x.shape[:2], self.num_heads, self.head_width)

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Section 2. A position attends to itself only if there is no other position to attend to."""
        del key  # the same as the queries
        buckets = lsh_buckets(query, self.rotations[...])
        return lsh_attention(query, value, buckets, chunk_size=self.chunk_size, mask=real)
