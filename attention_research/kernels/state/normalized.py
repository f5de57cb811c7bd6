"""Normalized state attention, Beck et al. 2024 (arXiv 2405.04517), equations 19 to 27 (mLSTM), without gates
Katharopoulos et al. 2020: S_t = f_t S_(t-1) + i_t k_t^T [v_t, 1], o_t = scale q_t S_t, then v / last column.

i_t = e^(l_t) is the scale of the key, and f_t = e^(g_t) the decay of the head. Both are given as logarithms, and i_t
may be far outside of the range of float32. The state is therefore divided by e^(m_t), the largest scale so far:

    m_t = max(g_t + m_(t-1), l_t),   f_t = e^(g_t + m_(t-1) - m_t) <= 1,   i_t = e^(l_t - m_t) <= 1

The result does not depend on m, which therefore has no gradient. In the mLSTM (`floor` True), the last column is
replaced by max(|last column|, 1), which is max(|last column|, e^(-m_t)) for the divided state. Linear attention and the
Performer have non-negative features instead of queries and keys, and no decay.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.efficient.feature_attention import LOWEST, divide
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.state.state_attention import state_attention
from attention_research.kernels.symbolic import expect_numbers

#: The largest logarithm of 1 / e^m. With smaller scales than e^-80, all outputs are below 1e-34 times the values.
LARGEST_FLOOR = 80.0


class NormalizedState(NamedTuple):
    """The sums of k^T [v, 1] over past positions, divided by exp(largest).

    >>> NormalizedState._fields
    ('sums', 'largest')
    """

    sums: Float[Array, "B N H Hv1"]
    largest: Float[Array, "B N"]


def no_normalized_state(batch: int, heads: int, width: int, value_width: int, dtype: DTypeLike = jnp.float32):
    """The state before the first position.

    >>> [x.shape for x in no_normalized_state(batch=1, heads=2, width=3, value_width=4)]
    [(1, 2, 3, 5), (1, 2)]
    """
    dtype = accumulator(jnp.dtype(dtype))
    return NormalizedState(
        jnp.zeros((batch, heads, width, value_width + 1), dtype), jnp.full((batch, heads), LOWEST, dtype)
    )


def normalized_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T N H"],
    value: Float[Array, "B T N Hv"],
    *,
    log_scale: Float[Array, "B T N"],
    log_decay: Float[Array, "B T N"] | None = None,
    mask: Bool[Array, "B T"] | None = None,
    reset: Bool[Array, "B T"] | None = None,
    initial_state: NormalizedState | None = None,
    scale: Scale = None,
    floor: bool = False,
    chunk_size: int = 64,
) -> tuple[Float[Array, "B T N Hv"], NormalizedState]:
    """Returns (output in the query's dtype, the state after the last position).

    `log_scale` is l, and `log_decay` is g, at most 0. The other arguments are those of `state_attention`. A position
    whose last column is 0 gives 0.

    >>> ones, values = jnp.ones((1, 3, 1, 1)), jnp.array([1.0, 2.0, 6.0]).reshape(1, 3, 1, 1)
    >>> output, _ = normalized_attention(ones, ones, values, log_scale=jnp.full((1, 3, 1), 500.0))
    >>> print(output.ravel())  # equal keys: means of the values so far
    [1.  1.5 3. ]
    """
    check_shapes(
        query=(query, "B T N H"), key=(key, "B T N H"), value=(value, "B T N Hv"), log_scale=(log_scale, "B T N"),
        log_decay=(log_decay, "B T N"), mask=(mask, "B T"), reset=(reset, "B T"),
    )  # fmt: skip
    (B, T, N, H), Hv = query.shape, value.shape[-1]
    wide = accumulator(query.dtype)
    before = no_normalized_state(B, N, H, Hv, wide) if initial_state is None else initial_state
    if T == 0:
        return jnp.zeros((B, T, N, Hv), query.dtype), before
    l, g = log_scale.astype(wide), jnp.zeros((B, T, N), wide) if log_decay is None else log_decay.astype(wide)
    if mask is not None:
        l, g = jnp.where(mask[..., None], l, jnp.full_like(l, LOWEST)), jnp.where(mask[..., None], g, jnp.zeros_like(g))
    begins = jnp.zeros((B, T, 1), bool) if reset is None else reset[..., None]
    largest = lax.stop_gradient(_largest(l, jnp.where(begins, jnp.full_like(g, LOWEST), g), before.largest))
    previous = jnp.concatenate([before.largest[:, None], largest[:, :-1]], axis=1)
    ones = jnp.ones((B, T, N, 1), wide)
    output, sums = state_attention(
        query.astype(wide), key.astype(wide) * jnp.exp(l - largest)[..., None],
        jnp.concatenate([value.astype(wide), ones], axis=-1),
        log_decay=_relative(g, previous, largest, begins), mask=mask, reset=reset, initial_state=before.sums,
        scale=scale, chunk_size=chunk_size,
    )  # fmt: skip
    return _divided(output, largest, floor).astype(query.dtype), NormalizedState(sums, largest[:, -1])


def normalized_step(
    state: NormalizedState,
    query: Float[Array, "B N H"],
    key: Float[Array, "B N H"],
    value: Float[Array, "B N Hv"],
    *,
    log_scale: Float[Array, "B N"],
    log_decay: Float[Array, "B N"] | None = None,
    mask: Bool[Array, "B"] | None = None,
    reset: Bool[Array, "B"] | None = None,
    scale: Scale = None,
    floor: bool = False,
) -> tuple[NormalizedState, Float[Array, "B N Hv"]]:
    """One position of `normalized_attention`. Returns (next state, output).

    >>> state, one = no_normalized_state(1, 1, 1, 1), jnp.ones((1, 1, 1))
    >>> for value in (1.0, 2.0):
    ...     state, output = normalized_step(state, one, one, value * one, log_scale=jnp.zeros((1, 1)))
    >>> output.item()
    1.5
    """
    long = lambda x: None if x is None else x[:, None]
    output, state = normalized_attention(
        query[:, None], key[:, None], value[:, None], log_scale=log_scale[:, None], log_decay=long(log_decay),
        mask=long(mask), reset=long(reset), initial_state=state, scale=scale, floor=floor, chunk_size=1,
    )  # fmt: skip
    return state, output[:, 0]


def _largest(l: Float[Array, "B T N"], g: Float[Array, "B T N"], first: Float[Array, "B N"]) -> Float[Array, "B T N"]:
    """m_t = max(g_t + m_(t-1), l_t) after m = `first`. A g of `LOWEST` begins anew."""

    expect_numbers("chunk_size", T=l.shape[1])

    def after(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        return one[0] + other[0], jnp.maximum(one[1] + other[0], other[1])

    total, largest = lax.associative_scan(after, (g, l), axis=1)
    return jnp.maximum(jnp.maximum(total + first[:, None], largest), jnp.asarray(LOWEST, l.dtype))


def _relative(g: Array, previous: Array, largest: Array, begins: Array) -> Float[Array, "B T N"]:
    """The logarithm of the decay of the divided state, g_t + m_(t-1) - m_t. 0 if there is no state before."""
    nothing = begins | (previous <= LOWEST / 2)
    relative = g + jnp.where(nothing, jnp.zeros_like(g), previous - largest)
    return jnp.where(nothing, jnp.zeros_like(g), relative)


def _divided(
    output: Float[Array, "B T N Hv1"], largest: Float[Array, "B T N"], floor: bool
) -> Float[Array, "B T N Hv"]:
    total = output[..., -1]
    if floor:
        total = jnp.maximum(jnp.abs(total), jnp.exp(jnp.minimum(-largest, LARGEST_FLOOR)))
    return divide(output[..., :-1], total)
