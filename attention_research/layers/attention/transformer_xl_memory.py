"""Transformer-XL with segment memory, Dai et al. 2019 (arXiv 1901.02860), section 3.2: keys and values of [SG(m); h].

A row is processed in segments of L positions. A query attends to its own segment, up to itself, and to the M positions
before the segment. At these positions, the inputs of the layer are the memory, which has no gradient (SG). The outputs
and gradients are those of segments that are processed one after the other, each with the inputs that the layers had for
the segments before. The memory is empty at the beginning of a row, because batches do not continue the rows of the
batch before. Distances are those of `transformer_xl`. Time and memory are linear in the length.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool

from attention_research.kernels import transformer_xl_attention
from attention_research.layers.attention.multi_head import Mask, Where, weights_of
from attention_research.layers.attention.transformer_xl import TransformerXLAttention
from attention_research.layers.attention.where import expect_place
from attention_research.signatures import NonNegative, Positive


class SegmentedTransformerXL(TransformerXLAttention):
    """Transformer-XL attention with a memory, for decoders. Segments are counted from the beginning of the row.

    `segment_length` is L. `memory_length` is M; None means segment_length. The cache holds L + M positions.
    """

    cost = ("min(S, segment_length + memory_length)*K*(H + Hv)", 1)

    def __init__(self, *, segment_length: Positive, memory_length: NonNegative | None = None, **inherited: Any):
        super().__init__(**inherited)
        self.segment_length = segment_length
        self.memory_length = segment_length if memory_length is None else memory_length

    def mix(self, query: Array, key: Array, value: Array, where: Where) -> tuple[Array, Array]:
        """(context, weights), with the segments as rows of a batch."""
        T, length, memory = query.shape[1], self.segment_length, self.memory_length
        assert where.x is not None
        memory_key, memory_value = self.keys_values(lax.stop_gradient(where.x))

        def with_memory(before: Array, own: Array) -> Array:
            return jnp.concatenate([memories(before, length, memory), segments(own, length)], axis=1)

        queries, keys = segments(query, length), with_memory(memory_key, key)
        arrays = self.distances(length + memory, query.dtype)
        visible = segment_mask(where.mask, len(query), T, length, memory)

        def attend(before: Array, own: Array) -> Array:
            context = transformer_xl_attention(queries, keys, with_memory(before, own), *arrays, mask=visible)
            return context.reshape(len(query), -1, *context.shape[2:])[:, :T]

        return attend(memory_value, value), weights_of(lambda rows: attend(rows, rows), key, value.dtype)

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """An empty cache."""
        return super().start(batch, min(length, self.segment_length + self.memory_length), dtype)

    def prefill(self, *args: Any, **kwargs: Any) -> Any:
        """Not defined: the kind is refused where a model reads a prompt in one call."""
        raise NotImplementedError("the cache is filled one position at a time")

    def step(self, x: Array, cache: dict[str, Array], index: Array, **given: Any) -> tuple[Array, Any, Any]:
        """Stores position `index` in place of the oldest one, and attends to its segment so far and to the memory."""
        places = cache["key"].shape[2]
        if places < self.segment_length + self.memory_length:
            expect_place(index, places)
        put = lambda kept, new: lax.dynamic_update_slice_in_dim(kept, new.swapaxes(1, 2), index % places, 2)
        cache = dict(zip(("key", "value"), map(put, (cache["key"], cache["value"]), self.keys_values(x)), strict=True))
        last = jnp.arange(1 - places, 1, dtype=jnp.int32) + index  # the oldest first, the query's own position last
        key, value = (jnp.take(cache[name], last % places, axis=2).swapaxes(1, 2) for name in ("key", "value"))
        first = index // self.segment_length * self.segment_length - self.memory_length
        where = Where((last >= jnp.maximum(first, 0))[None, None, None], x=x, **given)
        context, weights = super().mix(self.queries(x), key, value, where)
        return self.finish(context, where), cache, {"attention_weights": weights}


def segments(x: Array, length: int) -> Array:
    """The segments of x [B T ...] as rows [B*n L ...]; the last one is padded with 0."""
    B, T = x.shape[:2]
    count = -(-T // length)
    x = jnp.pad(x, [(0, 0), (0, count * length - T), *[(0, 0)] * (x.ndim - 2)])
    return x.reshape(B * count, length, *x.shape[2:])


def memories(x: Array, length: int, memory: int) -> Array:
    """The `memory` positions before each segment of x [B T ...], as rows [B*n M ...]; 0 before the first position."""
    B, T = x.shape[:2]
    first = np.arange(0, T, length)
    x = jnp.pad(x, [(0, 0), (memory, 0), *[(0, 0)] * (x.ndim - 2)])[:, first[:, None] + np.arange(memory)]
    return x.reshape(B * len(first), memory, *x.shape[3:])


def segment_mask(mask: Mask | None, batch: int, T: int, length: int, memory: int) -> Bool[Array, "C #N #L W"]:
    """The part of a mask that each segment and its memory need. It hides places outside the row."""
    first = np.arange(0, T, length)[:, None]
    places = first - memory + np.arange(memory + length)
    inside = jnp.asarray((places >= 0) & (places < T))[:, None, None]
    if mask is None:
        return jnp.tile(inside, (batch, 1, 1, 1))
    rows = np.minimum(first + np.arange(length), T - 1) if mask.shape[2] > 1 else np.zeros((len(first), 1), int)
    mask = mask[:, :, rows[:, :, None], np.clip(places, 0, T - 1)[:, None]]
    mask = jnp.moveaxis(jnp.broadcast_to(mask, (batch, *mask.shape[1:])), 2, 1) & inside
    return mask.reshape(-1, *mask.shape[2:])
