"""Selective attention, Leviathan, Kalman & Matias 2024 (arXiv 2410.02703), section 3: softmax(Q K^T / sqrt(H) - F) V.

F_ij is the sum over tokens before i of the positive scores that the first head gives to j: each token can reduce the
attention of all later tokens to an earlier one (`kernels.selective_attention`). It has no parameters.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.variants import selective_bias
from attention_research.layers.attention.multi_head import MultiHeadAttention, Where


class SelectiveAttention(MultiHeadAttention):
    """Scaled dot-product attention in which tokens reduce the scores of earlier tokens, for decoders.

    A cache also holds the sums F [B S] of the next position, in float32.
    """

    cost = ("S*(K*(H + Hv) + 1)", 2)

    def bias(self, query: Array, key: Array, where: Where) -> Array:
        """-F."""
        known = where.own.get("bias")
        return selective_bias(query, key, where.mask).bias if known is None else known

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache, with sums of 0."""
        return {**super().start(batch, length, dtype), "sums": jnp.zeros((batch, length), jnp.float32)}

    def prefill(self, x: Array, length: int, *, mask: Array, **given: Any) -> tuple[Array, Any, Any]:
        """The first positions, with the sums of their selections."""
        bias, sums = selective_bias(self.queries(x), self.keys_values(x)[0], mask)
        y, cache, aux = super().prefill(x, length, mask=mask, own={"bias": bias}, **given)
        return y, {**cache, "sums": jnp.pad(sums, [(0, 0), (0, length - x.shape[1])])}, aux

    def step(self, x: Array, cache: dict[str, Array], index: Array, **given: Any) -> tuple[Array, Any, Any]:
        """One position, with the sums of the selections before it."""
        y, cache, aux = super().step(x, cache, index, own={"bias": -cache["sums"][:, None, None]}, **given)
        key = cache["key"].swapaxes(1, 2)
        sums = selective_bias(self.queries(x), key, cache.get("mask"), cache["sums"], query_offset=index).sums
        return y, {**cache, "sums": sums}, aux
