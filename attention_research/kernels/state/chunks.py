"""Sequences in chunks: the scan over chunks that all state kernels share, and the segments of packed rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.precision import accumulator
from attention_research.kernels.state.decay import Decays, cumulative, decayed, decays_of, lifted
from attention_research.kernels.symbolic import expect_numbers

#: The smallest logarithm of a decay. Smaller decays are 0 in float32, and would cost digits of the sums of a chunk.
SMALLEST = -100.0


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


class Inputs(NamedTuple):
    """Arrays [B T N ...], or [B N C ...] in a chunk, by what they do with the state.

    `rows` read the state after their position has written, and `early_rows` before. `columns` are the keys of what
    their position writes, and `values` the values. The decay between two positions multiplies products of a row and a
    column.
    """

    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    values: tuple[Any, ...]
    early_rows: tuple[Any, ...] = ()


Body = Callable[[Any, Inputs, Decays | None, Places], tuple[Any, Float[Array, "B N C Hv"]]]


def over_chunks(
    body: Body,
    state: Any,
    inputs: Inputs,
    log_decay: Float[Array, "B T N"] | Float[Array, "B T N H"] | None,
    reset: Bool[Array, "B T"] | None,
    size: int,
) -> tuple[Float[Array, "B T N Hv"], Any]:
    """Scans over chunks of `size` positions. Returns (output, the last state).

    `body` maps (state, the chunk's inputs [B N C ...] in the accumulator's dtype, decays, places) to (next state,
    output). A state is an array [B N H ...] or a tree of such arrays and integers. The gradient keeps one state per
    chunk and computes the rest again.
    """
    B, T = inputs.rows[0].shape[:2]
    chunks = -(-T // size)
    lower = jnp.asarray(np.tril(np.ones((size, size), bool)))

    def padded(x: Array) -> Array:
        """[B T N ...] with zeros at the end, in the accumulator's dtype."""
        x = jnp.pad(x, [(0, 0), (0, chunks * size - T)] + [(0, 0)] * (x.ndim - 2))
        return x.astype(accumulator(x.dtype))

    def chunked(x: Array) -> Array:
        """[B chunks*size N ...] as [chunks B N size ...]."""
        x = x.reshape(B, chunks, size, *x.shape[2:])
        return x.transpose(1, 0, 3, 2, *range(4, x.ndim))

    def run(carry: tuple[Array, Any], chunk: tuple[Any, ...]) -> tuple[Any, Array]:
        (state, entering), (xs, decays, end, segment) = carry, chunk
        places = Places(lower, None, None)
        if segment is not None:
            here = segment[:, None]  # [B 1 C]
            places = Places(
                lower & (here[..., :, None] == here[..., None, :]),
                (here == entering[:, None, None])[..., None],
                (here == here[..., -1:])[..., None],
            )
            entering = segment[:, -1]
        state, output = body(_written(state, end), xs, decays, places)
        return (state, entering), output

    segments = None if reset is None else _segments(reset, chunks, size)
    first = None if reset is None else jnp.zeros((B,), jnp.int32)
    xs = jax.tree.map(padded, inputs)
    decays = ends = last = None
    if log_decay is not None:
        log_decay = jnp.maximum(padded(log_decay), jnp.asarray(SMALLEST, accumulator(log_decay.dtype)))
        total = cumulative(log_decay, size)
        early = total - log_decay if xs.early_rows else None
        xs = xs._replace(
            rows=tuple(lifted(x, total) for x in xs.rows),
            columns=tuple(lifted(x, -total) for x in xs.columns),
            early_rows=tuple(lifted(x, early) for x in xs.early_rows),
        )
        decays = decays_of(chunked(total), None if early is None else chunked(early), log_decay.ndim == 4)
        ends = total[:, size - 1 :: size].swapaxes(0, 1)
        ends, last = jnp.concatenate([jnp.zeros_like(ends[:1]), ends[:-1]]), ends[-1]
    xs = jax.tree.map(chunked, xs)
    run = jax.checkpoint(run, prevent_cse=False)
    (state, _), output = lax.scan(run, (state, first), (xs, decays, ends, segments))
    output = output.transpose(1, 0, 3, 2, 4)  # [B chunks size N Hv]
    return output.reshape(B, chunks * size, *output.shape[3:])[:, :T], _written(state, last)


def _written(state: Any, end: Float[Array, "B N"] | Float[Array, "B N H"] | None) -> Any:
    """The state with the derivative for the sums of the log decays of the chunk that wrote it."""

    def one(x: Array) -> Array:
        if end is None or not jnp.issubdtype(x.dtype, jnp.floating):
            return x
        lead = x.shape[: end.ndim]
        return lifted(x.reshape(*lead, math.prod(x.shape[end.ndim :])), end).reshape(x.shape)

    return jax.tree.map(one, state)


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


def read_state(
    state: Float[Array, "B N H Hv"], rows: Float[Array, "B N C H"], reach: Array | None, places: Places
) -> Float[Array, "B N C Hv"]:
    """What rows read from the state before the chunk, which has decayed by e^reach."""
    return jnp.einsum("BNtH,BNHV->BNtV", kept(decayed(rows, reach), places.before), state)


def carried(
    state: Float[Array, "B N H Hv"],
    decays: Decays | None,
    places: Places,
    *written: tuple[Float[Array, "B N C H"], Float[Array, "B N C Hv"]],
) -> Float[Array, "B N H Hv"]:
    """The state after a chunk: the decayed state before it, plus what its positions wrote, (keys, values)."""
    if places.before is not None:
        state = kept(state, places.before[:, :, -1:])
    if decays is not None:
        end = (decays.total if decays.marks is None else decays.marks)[:, :, -1:]
        state = state * jnp.exp(end[..., None] if decays.marks is None else end.swapaxes(2, 3))
        written = tuple((decayed(key, end + decays.negative), value) for key, value in written)
    return state + sum(jnp.einsum("BNCH,BNCV->BNHV", kept(key, places.last), value) for key, value in written)
