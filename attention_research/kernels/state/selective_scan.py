"""Selective scan (S6), Gu & Dao 2023 (arXiv 2312.00752), section 3.2: h_t = e^(dt_t A) h_(t-1) + dt_t x_t k_t, y_t =
q_t h_t.

Each of the C channels of the value x has a state h of H numbers. The step sizes dt_t [C], the keys k_t [H] (B in the
paper) and the queries q_t [H] (C in the paper) are functions of the input; the rates A [C H] are at most 0. All
channels share keys and queries. This is `state_attention` with a head for each channel, values of width 1, keys dt_t
k_t and log decays dt_t A. There the products of a chunk have C C_chunk^2 numbers; here the positions follow each other,
as in the released program, and nothing is larger than the states of a chunk.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.state.chunks import chunk_length
from attention_research.kernels.state.state_attention import with_length


def selective_scan(
    query: Float[Array, "B T H"],
    key: Float[Array, "B T H"],
    value: Float[Array, "B T C"],
    step_size: Float[Array, "B T C"],
    rate: Float[Array, "C H"],
    *,
    mask: Bool[Array, "B T"] | None = None,
    reset: Bool[Array, "B T"] | None = None,
    initial_state: Float[Array, "B C H"] | None = None,
    chunk_size: int = 16,
) -> tuple[Float[Array, "B T C"], Float[Array, "B C H"]]:
    """Returns (output in the value's dtype, the state after the last position in float32).

    `step_size` is dt, at least 0, and `rate` is A. `mask` is True at real positions. Padding leaves the state as it is.
    `reset` is True where a sequence begins: the position does not see the state before it. `initial_state` is zeros by
    default. Time is O(T C H). The gradient keeps a state for each chunk of `chunk_size` positions and computes the
    others again. Raises ValueError naming the argument and the axis.

    >>> ones, steps = jnp.ones((1, 3, 1)), jnp.full((1, 3, 1), jnp.log(2.0))
    >>> output, state = selective_scan(ones, ones, ones / steps, steps, -jnp.ones((1, 1)))
    >>> print(output.ravel(), state.ravel())  # each step halves what was written before
    [1.   1.5  1.75] [1.75]
    """
    _check(query, key, value, step_size, mask, reset, rate=rate, initial_state=initial_state)
    (B, T, C), H = value.shape, key.shape[-1]
    wide = accumulator(value.dtype)
    state = jnp.zeros((B, C, H), wide) if initial_state is None else initial_state.astype(wide)
    if T == 0:
        return value, state
    if mask is not None:  # also keys and values, because 0 times NaN is NaN
        real = lambda x: jnp.where(mask[..., None], x, jnp.zeros_like(x))
        step_size, key, value = real(step_size), real(key), real(value)
    size = chunk_length(T, chunk_size, by_channel=False)
    chunks = -(-T // size)

    def chunked(x: Array | None) -> Array | None:
        """[B T ...] as [chunks size B ...], with zeros at the end: a step of size 0 leaves the state as it is."""
        if x is None:
            return None
        x = jnp.pad(x, [(0, 0), (0, chunks * size - T)] + [(0, 0)] * (x.ndim - 2))
        return jnp.moveaxis(x.reshape(B, chunks, size, *x.shape[2:]), 0, 2)

    def one(state: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        query, key, value, step_size, reset = now
        return selective_step(state, query, key, value, step_size, rate, reset=reset)

    run = jax.checkpoint(functools.partial(lax.scan, one), prevent_cse=False)
    state, output = lax.scan(run, state, tuple(map(chunked, (query, key, value, step_size, reset))))
    return jnp.moveaxis(output, 2, 0).reshape(B, chunks * size, C)[:, :T], state


def selective_step(
    state: Float[Array, "B C H"],
    query: Float[Array, "B H"],
    key: Float[Array, "B H"],
    value: Float[Array, "B C"],
    step_size: Float[Array, "B C"],
    rate: Float[Array, "C H"],
    *,
    mask: Bool[Array, "B"] | None = None,
    reset: Bool[Array, "B"] | None = None,
) -> tuple[Float[Array, "B C H"], Float[Array, "B C"]]:
    """One position of `selective_scan`. Returns (next state, output).

    >>> one, step = jnp.ones((1, 1)), jnp.full((1, 1), jnp.log(2.0))
    >>> state, output = selective_step(jnp.full((1, 1, 1), 3.0), one, one, one / step, step, -one)
    >>> print(output.ravel())  # half of the state, and the value
    [2.5]
    """
    _check(*map(with_length, (query, key, value, step_size, mask, reset)), rate=rate, state=state)
    wide = lambda x: x.astype(state.dtype)
    if reset is not None:
        state = jnp.where(reset[:, None, None], jnp.zeros_like(state), state)
    size = wide(step_size)
    after = jnp.exp(size[..., None] * wide(rate)) * state + (size * wide(value))[..., None] * wide(key)[:, None]
    after = after if mask is None else jnp.where(mask[:, None, None], after, state)
    return after, jnp.sum(after * wide(query)[:, None], axis=-1).astype(value.dtype)


def _check(
    query: Array, key: Array, value: Array, step_size: Array, mask: Array | None, reset: Array | None, *, rate: Array,
    **state: Array | None,
) -> None:  # fmt: skip
    """Raises ValueError naming the argument and the axis."""
    check_shapes(
        query=(query, "B T H"), key=(key, "B T H"), value=(value, "B T C"), step_size=(step_size, "B T C"),
        rate=(rate, "C H"), mask=(mask, "B T"), reset=(reset, "B T"),
        **{name: (array, "B C H") for name, array in state.items()},
    )  # fmt: skip
