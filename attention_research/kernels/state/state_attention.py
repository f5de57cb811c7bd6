"""Attention with a decaying state, Yang et al. 2023 (arXiv 2312.06635), equations 3 and 4, with a term of rank one:
S_t = diag(e^(g_t)) S_(t-1) + w_t^T (r_t S_(t-1)) + k_t^T v_t, o_t = scale q_t S_t.

The state S [H Hv] of a head replaces the keys and values of softmax attention. Its size does not depend on the length.
Most linear attentions and state space models are this recurrence with other inputs:

    linear attention (Katharopoulos et al. 2020)     no g; features of queries and keys; the value has a column of ones
    RetNet (Sun et al. 2023), lightning attention    g a constant of the head
    Mamba-2 (Dao & Gu 2024)                          g = -A dt; the query is C, the key dt B
    gated linear attention (Yang et al. 2023)        g by channel
    DeltaNet (Schlag et al. 2021)                    r = k, w = -beta k, and beta v as the value
    Gated DeltaNet (Yang et al. 2024), KDA           the same with r = e^g k
    RWKV-7 (Peng et al. 2025)                        g by channel, r = -kappa, w = kappa a

`delta_attention` computes the delta rules (DeltaNet, Gated DeltaNet, KDA) in less time.

The C positions of a chunk are computed together. With G the inclusive sums of g over the chunk, E = G - g,
P(a, A; b)_ti = sum_h a_th b_ih e^(A_th - G_ih), and S the state before the chunk:

    U = (I - tril(P(r, E; w), -1))^(-1) (tril(P(r, E; k), -1) V + (r e^E) S)
    O = tril(P(q, G; k)) V + tril(P(q, G; w)) U + (q e^G) S
    S <- diag(e^(G_C)) S + (k e^(G_C - G))^T V + (w e^(G_C - G))^T U

The triangular matrix is inverted by blocks (`kernels.triangular`). The product (I + A)(I + A^2)(I + A^4)... of the same
inverse loses all digits in float32 if the entries of A exceed 1. States and decays are in float32 (float64 for float64
inputs).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.state.chunks import Inputs, Places, carried, chunk_length, over_chunks, read_state
from attention_research.kernels.state.decay import Decays, decay_products
from attention_research.kernels.triangular import unit_lower_solve


def state_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T N H"],
    value: Float[Array, "B T N Hv"],
    *,
    log_decay: Float[Array, "B T N"] | Float[Array, "B T N H"] | None = None,
    read: Float[Array, "B T N H"] | None = None,
    write: Float[Array, "B T N H"] | None = None,
    mask: Bool[Array, "B T"] | None = None,
    reset: Bool[Array, "B T"] | None = None,
    initial_state: Float[Array, "B N H Hv"] | None = None,
    scale: Scale = None,
    chunk_size: int = 64,
) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N H Hv"]]:
    """Returns (output in the query's dtype, the state after the last position in float32).

    `log_decay` is g, at most 0, a number per head or per channel of the key; None means 0. `read` and `write` are r and
    w; both are given or neither. `mask` is True at real positions. Padding leaves the state as it is. `reset` is True
    where a sequence begins: the position does not see the state before it. `initial_state` is zeros by default. `scale`
    None means 1 / sqrt(H). Time is O(T (chunk_size + H) Hv), and the gradient keeps a state for each chunk. If decays
    are by channel, the length of a chunk is a power of two. Raises ValueError naming the argument and the axis.

    >>> ones, values = jnp.ones((1, 3, 1, 1)), jnp.array([1.0, 2.0, 4.0]).reshape(1, 3, 1, 1)
    >>> half = jnp.full((1, 3, 1), jnp.log(0.5))
    >>> output, state = state_attention(ones, ones, values, log_decay=half)
    >>> print(output.ravel(), state.ravel())  # each step halves what was written before
    [1.   2.5  5.25] [5.25]
    """
    _check(query, key, value, log_decay, read, write, mask, reset, state=initial_state)
    (B, T, N, H), Hv = query.shape, value.shape[-1]
    state = first_state(B, N, H, Hv, query.dtype, initial_state)
    if T == 0:
        return jnp.zeros((B, T, N, Hv), query.dtype), state
    scale = H**-0.5 if scale is None else scale
    key, value, read, write, log_decay = only_real(mask, key, value, read, write, log_decay)
    by_channel = log_decay is not None and log_decay.ndim == 4

    def chunk(state: Array, xs: Inputs, decays: Decays | None, places: Places) -> tuple[Array, Array]:
        (query,), (key, *write), (value,) = xs.rows, xs.columns, xs.values
        reach, early = (None, None) if decays is None else (decays.total, decays.early)
        scores = decay_products(query, reach, key, decays, places.pairs)
        output = read_state(state, query, reach, places) + jnp.einsum("BNti,BNiV->BNtV", scores, value)
        if not write:
            return carried(state, decays, places, (key, value)), output
        (read,), (write,), strictly = xs.early_rows, write, places.strictly()
        known = decay_products(read, early, key, decays, strictly, strict=True)
        known = read_state(state, read, early, places) + jnp.einsum("BNti,BNiV->BNtV", known, value)
        system = decay_products(read, early, write, decays, strictly, strict=True)
        found = unit_lower_solve(-system, known)
        scores = decay_products(query, reach, write, decays, places.pairs)
        output += jnp.einsum("BNti,BNiV->BNtV", scores, found)
        return carried(state, decays, places, (key, value), (write, found)), output

    rows, columns = (query.astype(state.dtype) * scale,), (key,) if write is None else (key, write)
    inputs = Inputs(rows, columns, (value,), () if read is None else (read,))
    output, state = over_chunks(chunk, state, inputs, log_decay, reset, chunk_length(T, chunk_size, by_channel))
    return output.astype(query.dtype), state


def state_step(
    state: Float[Array, "B N H Hv"],
    query: Float[Array, "B N H"],
    key: Float[Array, "B N H"],
    value: Float[Array, "B N Hv"],
    *,
    log_decay: Float[Array, "B N"] | Float[Array, "B N H"] | None = None,
    read: Float[Array, "B N H"] | None = None,
    write: Float[Array, "B N H"] | None = None,
    mask: Bool[Array, "B"] | None = None,
    reset: Bool[Array, "B"] | None = None,
    scale: Scale = None,
) -> tuple[Float[Array, "B N H Hv"], Float[Array, "B N Hv"]]:
    """One position of `state_attention`. Returns (next state, output).

    >>> state, one = jnp.zeros((1, 1, 1, 1)), jnp.ones((1, 1, 1))
    >>> for value in (1.0, 2.0):
    ...     state, output = state_step(state, one, one, jnp.full((1, 1, 1), value), log_decay=jnp.log(one / 2))
    >>> output.item()
    2.5
    """
    _check(*map(with_length, (query, key, value, log_decay, read, write, mask, reset)), state=state, name="state")
    wide = lambda x: x.astype(state.dtype)
    if reset is not None:
        state = jnp.where(reset[:, None, None, None], jnp.zeros_like(state), state)
    after = state
    if log_decay is not None:
        decay = jnp.exp(wide(log_decay))
        after = after * (decay[..., None] if decay.ndim == 3 else decay[..., None, None])
    if read is not None and write is not None:
        after += wide(write)[..., None] * jnp.einsum("BNH,BNHV->BNV", wide(read), state)[:, :, None]
    after += wide(key)[..., None] * wide(value)[:, :, None]
    after = after if mask is None else jnp.where(mask[:, None, None, None], after, state)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    output = jnp.einsum("BNH,BNHV->BNV", wide(query) * scale, after)
    return after, output.astype(query.dtype)


def with_length(x: Any) -> Any:
    """An array of one position [B ...] as a sequence [B 1 ...]."""
    return None if x is None else x[:, None]


def _check(
    query: Array, key: Array, value: Array, log_decay: Array | None, read: Array | None, write: Array | None,
    mask: Array | None, reset: Array | None, *, state: Array | None, name: str = "initial_state",
) -> None:  # fmt: skip
    """Raises ValueError naming the argument and the axis."""
    check_shapes(
        query=(query, "B T N H"), key=(key, "B T N H"), value=(value, "B T N Hv"), log_decay=decay_axes(log_decay),
        read=(read, "B T N H"), write=(write, "B T N H"), mask=(mask, "B T"), reset=(reset, "B T"),
        **{name: (state, "B N H Hv")},
    )  # fmt: skip
    if (read is None) != (write is None):
        raise ValueError("read: expected together with write, or neither of them")


def decay_axes(log_decay: Array | None) -> tuple[Array | None, str]:
    """A log decay with its axes, for `check_shapes`."""
    return log_decay, "B T N H" if log_decay is not None and log_decay.ndim == 4 else "B T N"


def first_state(B: int, N: int, H: int, Hv: int, dtype: jnp.dtype, given: Array | None) -> Float[Array, "B N H Hv"]:
    """The given state or zeros, in the accumulator's dtype."""
    dtype = accumulator(dtype)
    return jnp.zeros((B, N, H, Hv), dtype) if given is None else given.astype(dtype)


def only_real(mask: Bool[Array, "B T"] | None, *arrays: Array | None) -> tuple[Array | None, ...]:
    """The arrays [B T N ...] with zeros at padding."""
    if mask is None:
        return arrays
    at = lambda x: mask.reshape(*mask.shape, *[1] * (x.ndim - 2))
    return tuple(None if x is None else jnp.where(at(x), x, jnp.zeros_like(x)) for x in arrays)
