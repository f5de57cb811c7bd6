"""Reformer LSH attention, Kitaev, Kaiser & Levskaya 2020 (arXiv 2001.04451): attention among vectors of one direction.

Queries are their own keys, k = q / |q|, so that there is no key projection. The random rotations that make the buckets
are drawn with the parameters, one set a layer, and stay, among the statistics; the paper draws them at every call. Its
reversible residuals are no part of the attention (`kernels.efficient.reversible`).
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
    """`num_rounds` rounds of hashing into twice `half_buckets` buckets; sorted by them, chunks of `chunk_size`."""

    projects_keys = False

    def __init__(
        self,
        *,
        chunk_size: Positive = 64,
        half_buckets: Positive = 16,
        num_rounds: Positive = 1,
        rngs: nnx.Rngs,
        **inherited: Any,
    ):
        super().__init__(value_head_width=None, rngs=rngs, **inherited)
        self.chunk_size = chunk_size
        shape = (self.head_width, num_rounds, half_buckets)
        self.rotations = nnx.BatchStat(jax.random.normal(rngs.params(), shape, jnp.float32))

    def keys_values(self, x: Float[Array, "B T D"]) -> tuple[Float[Array, "B T N H"], Float[Array, "B T N H"]]:
        """The queries again, and the values, split in heads."""
        return self.queries(x), self.value(x).reshape(*x.shape[:2], self.num_heads, self.head_width)

    def attend(self, query: Array, key: Array, value: Array, real: Array | None) -> Array:
        """Section 2; a position attends to others, and to itself where it is alone."""
        del key  # the queries
        buckets = lsh_buckets(query, self.rotations[...])
        return lsh_attention(query, value, buckets, chunk_size=self.chunk_size, mask=real)
