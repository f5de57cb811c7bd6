"""Attention sinks in a rolling cache, Xiao et al. 2023 (arXiv 2309.17453), section 3.2: softmax over j < s, i - w <= j.

A position attends to the first s tokens, to the w tokens before it, and to itself. Rotary positions are places in the
cache: once a token has left the cache, the query is at place s + w, and the distance to the first tokens grows no more.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels import rotary
from attention_research.kernels.precision import accumulator, einsum
from attention_research.layers.attention.multi_head import Mask, Where
from attention_research.layers.attention.rotary import expect_even, rotated
from attention_research.layers.attention.windowed import Windowed
from attention_research.signatures import NonNegative, PositiveFloat


class StreamingAttention(Windowed):
    """Attention to `num_sinks` first tokens and to `window` tokens before each position.

    The cache holds `num_sinks` + `window` + 1 positions. The first tokens are those of the row, so that packed rows are
    refused with ValueError. In training, the scores of sinks are corrected by a dense bias [B N T S] if the sequence is
    longer than the cache. `base` is that of `rotary`.
    """

    cost = ("min(S, num_sinks + window + 1)*K*(H + Hv)", 1)

    def __init__(
        self, *, num_sinks: NonNegative = 4, window: NonNegative, base: PositiveFloat = 10000.0, **inherited: Any
    ):
        super().__init__(**inherited)
        expect_even(self.head_width, "rotary attention")
        self.base = base
        self.num_first, self.ring, self.last = num_sinks, window + 1, num_sinks + window

    def prepare(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array, Array]:
        """Rotates queries and keys."""
        return *rotated(query, key, where, self.base), value

    def visible(self, query: Array, key: Array, where: Where) -> Mask | None:
        """The sinks and the window, in training."""
        if where.places is not None:
            return super().visible(query, key, where)
        if where.mask is not None and where.mask.shape[2] > 1:
            raise ValueError("streaming attention takes only a key mask [B 1 1 S]: sinks are the first tokens of a row")
        i, j = jnp.arange(query.shape[1])[:, None], jnp.arange(key.shape[1])
        return ((j < self.num_first) | (i - j < self.ring))[None, None]

    def bias(self, query: Array, key: Array, where: Where) -> Float[Array, "B N T S"] | None:
        """The difference that places in the cache make to the scores of the sinks."""
        T, S = query.shape[1], key.shape[1]
        if where.places is not None or self.last + 1 >= T:
            return super().bias(query, key, where)
        place, sinks = jnp.arange(T, dtype=jnp.int32), min(self.num_first, S)
        turn = lambda x, places: rotary(x, places, base=self.base).astype(accumulator(x.dtype))
        moved = turn(query, jnp.minimum(place, self.last)) - turn(query, place)
        first = turn(key[:, :sinks], place[:sinks])
        (B, _, N, H), K = query.shape, key.shape[2]
        scores = einsum("BTKGH,BSKH->BKGTS", moved.reshape(B, T, K, N // K, H), first) * H**-0.5
        return jnp.pad(scores.reshape(B, N, T, sinks), ((0, 0), (0, 0), (0, 0), (0, S - sinks)))

    def step_where(self, index: Int[Array, ""], positions: Int[Array, "C"]) -> tuple[Array, Array]:
        """Places in the cache: those of the window move once the cache is full."""
        past = jnp.maximum(index - self.last, 0)
        sinks = jnp.arange(positions.shape[0], dtype=jnp.int32) < self.num_first
        return index - past, jnp.where(sinks, positions, positions - past)
