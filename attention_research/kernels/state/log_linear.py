"""Log-linear attention, Guo et al. 2025 (arXiv 2506.04761), section 3, on Mamba-2:
o_t = scale sum_(j <= t) lambda_t[level(t, j)] e^(G_t - G_j) (q_t . k_j) v_j.

G is the sum of the log decays up to a position. Position t is level 0 of itself. The t positions before it form a
Fenwick tree: for each bit b of the number t that is 1, a block of 2^b consecutive positions, the larger the farther
back. A block of 2^b is level b + 1, so that level(t, j) is the number of bits of t xor j. With all weights lambda 1,
this is `state_attention` with the same decays.

Each block has a state of its own. The states are a binary counter: slot b holds a state if bit b of the number of
positions so far is 1. A new position adds a block of 1, and two blocks of the same size become one of twice the size.
L levels are enough for 2^(L - 1) positions, so that the states of T positions take O(log T) memory.

In a chunk, let n be the number of positions before it. Position t of the chunk sees slot b at level
max(b + 1, number of bits of t xor n), and after the chunk, slot b is in slot max(b, bits of n' xor n, minus 1), where
n' counts the chunk too. Chunks therefore need not be aligned with blocks, and the examples of packed rows begin
anywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.state.chunks import Inputs, Places, chunk_length, kept, over_chunks
from attention_research.kernels.state.decay import Decays, decay_products, decayed
from attention_research.kernels.state.state_attention import only_real, with_length


class LogLinearState(NamedTuple):
    """The states of the blocks in float32, and the number of positions since the sequence began.

    >>> LogLinearState._fields
    ('slots', 'length')
    """

    slots: Float[Array, "B N L H Hv"]
    length: Int[Array, "B"]


def num_levels(length: int) -> int:
    """The number of levels of `length` positions: ceil(log2(length)) + 1.

    >>> [num_levels(length) for length in (1, 2, 3, 4, 5, 1024)]
    [1, 2, 3, 3, 4, 11]
    """
    return max(length - 1, 0).bit_length() + 1


def no_log_linear_state(
    batch: int, heads: int, levels: int, width: int, value_width: int, dtype: DTypeLike = jnp.float32
) -> LogLinearState:
    """The state before the first position.

    >>> [x.shape for x in no_log_linear_state(batch=1, heads=2, levels=5, width=3, value_width=4)]
    [(1, 2, 5, 3, 4), (1,)]
    """
    shape = batch, heads, levels, width, value_width
    return LogLinearState(jnp.zeros(shape, accumulator(jnp.dtype(dtype))), jnp.zeros((batch,), jnp.int32))


def log_linear_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T N H"],
    value: Float[Array, "B T N Hv"],
    level_weights: Float[Array, "B T N L"],
    *,
    log_decay: Float[Array, "B T N"] | None = None,
    mask: Bool[Array, "B T"] | None = None,
    reset: Bool[Array, "B T"] | None = None,
    initial_state: LogLinearState | None = None,
    scale: Scale = None,
    chunk_size: int = 64,
) -> tuple[Float[Array, "B T N Hv"], LogLinearState]:
    """Returns (output in the query's dtype, the state after the last position).

    `level_weights` are lambda, the weights that each position gives to its levels. Positions count from the beginning
    of each sequence, without padding. The other arguments are those of `state_attention`. Time is
    O(T (chunk_size + H L) Hv), and the gradient keeps L states for each chunk. Raises ValueError naming the argument
    and the axis, also for more than 2^(L - 1) positions. Those of an initial state are the caller's to count.

    >>> ones, values = jnp.ones((1, 4, 1, 1)), jnp.array([1.0, 2.0, 4.0, 8.0]).reshape(1, 4, 1, 1)
    >>> weights = jnp.broadcast_to(jnp.array([1.0, 0.1, 0.01]), (1, 4, 1, 3))
    >>> output, state = log_linear_attention(ones, ones, values, weights)
    >>> print(output.ravel())  # of the last position: itself, the one before, and the two before that
    [1.   2.1  4.03 8.43]
    """
    axes = check_shapes(
        query=(query, "B T N H"), key=(key, "B T N H"), value=(value, "B T N Hv"),
        level_weights=(level_weights, "B T N L"), log_decay=(log_decay, "B T N"), mask=(mask, "B T"),
        reset=(reset, "B T"), initial_state=(initial_state and initial_state.slots, "B N L H Hv"),
    )  # fmt: skip
    B, T, N, H, L, Hv = (axes[axis] for axis in ("B", "T", "N", "H", "L", "Hv"))
    wide = accumulator(query.dtype)
    state = no_log_linear_state(B, N, L, H, Hv, wide) if initial_state is None else initial_state
    if T == 0:
        return jnp.zeros((B, T, N, Hv), query.dtype), state
    size = chunk_length(T, chunk_size, False)
    if num_levels(T) > L:
        raise ValueError(f"level_weights: axis L: expected at least {num_levels(T)} levels for {T} positions, got {L}")
    scale = H**-0.5 if scale is None else scale
    key, value, log_decay = only_real(mask, key, value, log_decay)
    real = jnp.ones((B, T, 1), wide) if mask is None else mask[..., None].astype(wide)
    slots = jnp.arange(L, dtype=jnp.int32)

    def one_hot(numbers: Int[Array, "*B"]) -> Float[Array, "*B L"]:
        return (numbers[..., None] == slots).astype(wide)

    def chunk(state: LogLinearState, xs: Inputs, decays: Decays | None, places: Places) -> tuple[LogLinearState, Array]:
        (query,), (key,), (value, weights, real) = xs.rows, xs.columns, xs.values  # [B N C ...]
        held, before = state
        total = None if decays is None else decays.total
        real = real[:, 0].astype(jnp.int32)
        place = _places(real, before, places)  # [B C]
        after = place[:, -1] + real[:, -1]
        levels = _bits(place[:, :, None] ^ place[:, None, :])  # [B C C]
        scores = decay_products(query, total, key, decays, places.pairs)
        scores = scores * jnp.einsum("BNtL,BtiL->BNti", weights, one_hot(levels))
        output = jnp.einsum("BNti,BNiV->BNtV", scores, value)
        seen = jnp.maximum(slots + 1, _bits(place ^ before[:, None])[..., None])  # [B C b]
        seen = jnp.einsum("BNtL,BtbL->BNtb", weights, one_hot(seen))
        reading = kept(decayed(query, total), places.before)
        output += jnp.einsum("BNtb,BNtbV->BNtV", seen, jnp.einsum("BNtH,BNbHV->BNtbV", reading, held))
        held = held if places.before is None else kept(held, places.before[:, :, -1:, :, None])
        if decays is not None:
            end = decays.total[:, :, -1:]
            held, key = held * jnp.exp(end[..., None, None]), decayed(key, end + decays.negative)
        held = _merged(held, _bits(after ^ before) - 1)
        written = one_hot(_bits(after[:, None] ^ place) - 1)  # [B C L]
        held += jnp.einsum("BiL,BNiH,BNiV->BNLHV", written, kept(key, places.last), value)
        return LogLinearState(held, after), output

    inputs = Inputs((query.astype(wide) * scale,), (key,), (value, level_weights, real))
    state = LogLinearState(state.slots.astype(wide), state.length)
    output, state = over_chunks(chunk, state, inputs, log_decay, reset, size)
    return output.astype(query.dtype), state


def log_linear_step(
    state: LogLinearState,
    query: Float[Array, "B N H"],
    key: Float[Array, "B N H"],
    value: Float[Array, "B N Hv"],
    level_weights: Float[Array, "B N L"],
    *,
    log_decay: Float[Array, "B N"] | None = None,
    mask: Bool[Array, "B"] | None = None,
    reset: Bool[Array, "B"] | None = None,
    scale: Scale = None,
) -> tuple[LogLinearState, Float[Array, "B N Hv"]]:
    """One position of `log_linear_attention`. Returns (next state, output).

    >>> state, one = no_log_linear_state(1, 1, 3, 1, 1), jnp.ones((1, 1, 1))
    >>> for value in (1.0, 2.0, 4.0, 8.0):
    ...     state, output = log_linear_step(state, one, one, value * one, jnp.array([[[1.0, 0.1, 0.01]]]))
    >>> print(output.item(), state.slots.ravel(), state.length)
    8.43... [ 0.  0. 15.] [4]
    """
    arrays = map(with_length, (query, key, value, level_weights))
    rest = {"log_decay": with_length(log_decay), "mask": with_length(mask), "reset": with_length(reset)}
    output, state = log_linear_attention(*arrays, **rest, initial_state=state, scale=scale, chunk_size=1)
    return state, output[:, 0]


def _bits(number: Int[Array, "*B"]) -> Int[Array, "*B"]:
    """The number of binary digits, 0 for 0."""
    return 32 - lax.clz(number)


def _merged(held: Float[Array, "B N L H Hv"], top: Int[Array, "B"]) -> Float[Array, "B N L H Hv"]:
    """The states after the slots up to `top` are added up in slot `top`. -1 leaves all slots as they are."""
    slots = jnp.arange(held.shape[2], dtype=jnp.int32)
    up_to = slots <= top[:, None]
    added = jnp.einsum("BL,BNLHV->BNHV", up_to.astype(held.dtype), held)[:, :, None]
    at = lambda where: where[:, None, :, None, None]
    return jnp.where(at(up_to), jnp.where(at(slots == top[:, None]), added, jnp.zeros_like(added)), held)


def _places(real: Int[Array, "B C"], before: Int[Array, "B"], places: Places) -> Int[Array, "B C"]:
    """How many positions of the same sequence each position has before it. Padding does not count."""
    earlier = places.strictly()
    earlier = earlier[:, 0] if earlier.ndim == 4 else earlier
    place = jnp.sum(jnp.where(earlier, real[:, None], 0), axis=-1, dtype=jnp.int32)
    carried = jnp.broadcast_to(before[:, None], place.shape)
    return place + (carried if places.before is None else kept(carried, places.before[:, 0, :, 0]))
