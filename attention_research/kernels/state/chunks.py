"""Sequences in chunks: the scan over chunks that all state kernels share, and the segments of packed rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.precision import accumulator
from attention_research.kernels.symbolic import expect_numbers


class Places(NamedTuple):
    """Which positions of a chunk belong together.

    `pairs` is True where position t may read what position i <= t wrote; `before` where the state before the chunk is
    still there; `last` where the state after the chunk holds what the position wrote. None means everywhere.
    """

    pairs: Bool[Array, "*#B C C"]
    before: Bool[Array, "B 1 C 1"] | None
    last: Bool[Array, "B 1 C 1"] | None

    def strictly(self) -> Bool[Array, "*#B C C"]:
        """The pairs without t = i."""
        size = self.pairs.shape[-1]
        return self.pairs & np.tril(np.ones((size, size), bool), -1)


Body = Callable[[Any, Any, Places], tuple[Any, Float[Array, "B N C Hv"]]]


def over_chunks(
    body: Body,
    state: Any,
    arrays: tuple[Array | None, ...],
    reset: Bool[Array, "B T"] | None,
    size: int,
) -> tuple[Float[Array, "B T N Hv"], Any]:
    """Scans over chunks of `size` positions. Returns (output, the last state), an array or a tuple of arrays.

    `body` maps (state, the chunk's arrays [B N C ...] in the accumulator's dtype, places) to (next state, output). The
    arrays are [B T N ...]. The gradient keeps one state per chunk and computes the rest again.
    """
    B, T = next(x for x in arrays if x is not None).shape[:2]
    chunks = -(-T // size)
    lower = jnp.asarray(np.tril(np.ones((size, size), bool)))

    def chunked(x: Array) -> Array:
        """Pads [B T N ...] at the end and splits it into chunks: [chunks B N size ...]."""
        x = jnp.pad(x, [(0, 0), (0, chunks * size - T)] + [(0, 0)] * (x.ndim - 2))
        x = x.reshape(B, chunks, size, *x.shape[2:])
        return x.transpose(1, 0, 3, 2, *range(4, x.ndim))

    def run(carry: tuple[Array, Any], chunk: tuple[Any, Array | None]) -> tuple[Any, Array]:
        (state, entering), (xs, segment) = carry, chunk
        xs = jax.tree.map(lambda x: x.astype(accumulator(x.dtype)), xs)
        places = Places(lower, None, None)
        if segment is not None:
            here = segment[:, None]  # [B 1 C]
            places = Places(
                lower & (here[..., :, None] == here[..., None, :]),
                (here == entering[:, None, None])[..., None],
                (here == here[..., -1:])[..., None],
            )
            entering = segment[:, -1]
        state, output = body(state, xs, places)
        return (state, entering), output

    segments = None if reset is None else _segments(reset, chunks, size)
    first = None if reset is None else jnp.zeros((B,), jnp.int32)
    split = jax.tree.map(chunked, arrays)
    (state, _), output = lax.scan(jax.checkpoint(run, prevent_cse=False), (state, first), (split, segments))
    output = output.transpose(1, 0, 3, 2, 4)  # [B chunks size N Hv]
    return output.reshape(B, chunks * size, *output.shape[3:])[:, :T], state


def _segments(reset: Bool[Array, "B T"], chunks: int, size: int) -> Int[Array, "chunks B C"]:
    """The number of resets up to each position. The positions that fill the last chunk continue its last segment."""
    B, T = reset.shape
    numbers = jnp.cumsum(reset.astype(jnp.int32), axis=1, dtype=jnp.int32)
    return jnp.pad(numbers, [(0, 0), (0, chunks * size - T)], mode="edge").reshape(B, chunks, size).swapaxes(0, 1)


def chunk_length(T: int, chunk_size: int, by_channel: bool) -> int:
    """The number of positions in a chunk: at most `chunk_size`, but a power of two if decays are by channel."""
    if chunk_size < 1:
        raise ValueError(f"chunk_size: expected at least 1, got {chunk_size}")
    expect_numbers("chunk_size", T=T)
    size = min(chunk_size, T)
    return 1 << (size - 1).bit_length() if by_channel else size


def kept(x: Array, places: Array | None) -> Array:
    """x at the given places, otherwise 0."""
    return x if places is None else jnp.where(places, x, jnp.zeros_like(x))


def carried(
    state: Float[Array, "B N H Hv"],
    total: Float[Array, "B N C"] | Float[Array, "B N C H"] | None,
    places: Places,
    *written: tuple[Float[Array, "B N C H"], Float[Array, "B N C Hv"]],
) -> Float[Array, "B N H Hv"]:
    """The state after a chunk: the decayed state before it, plus what its positions wrote, (keys, values)."""
    if places.before is not None:
        state = kept(state, places.before[:, :, -1:])
    if total is not None:
        end = total[:, :, -1:]
        state = state * jnp.exp(end[..., None] if total.ndim == 3 else end.swapaxes(2, 3))
        left = jnp.exp((end - total)[..., None] if total.ndim == 3 else end - total)
        written = tuple((key * left, value) for key, value in written)
    return state + sum(jnp.einsum("BNCH,BNCV->BNHV", kept(key, places.last), value) for key, value in written)
