"""The gated delta rule, Yang et al. 2024 (arXiv 2412.06464), equation 10, by channel as Kimi Linear (arXiv 2510.26692):
S_t = (I - beta_t k_t^T k_t) diag(e^(g_t)) S_(t-1) + beta_t k_t^T v_t, o_t = scale q_t S_t.

Without g this is DeltaNet (Schlag et al. 2021, arXiv 2102.11174; Yang et al. 2024, arXiv 2406.06484). With one g per
head it is Gated DeltaNet, and with one per channel Kimi Delta Attention. A step replaces the value that the state holds
for the key k_t, k_t S, by a mixture of it with v_t. Keys have norm 1, and beta is between 0 and 1, or up to 2 for
negative eigenvalues (Grazzi et al. 2024, arXiv 2411.12537). Larger norms make the state grow exponentially.

It is `state_attention` with r = e^g k, w = -beta k and beta v as the value. In a chunk, the values that it really
writes are computed first (the UT transform):

    V' = (I + diag(beta) tril(P(k, G; k), -1))^(-1) diag(beta) (V - (k e^G) S)

The rest is `state_attention` without r and w: two matrices of scores instead of four.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.state.chunks import Inputs, Places, carried, chunk_length, over_chunks, read_state
from attention_research.kernels.state.decay import Decays, decay_products, decayed, times
from attention_research.kernels.state.state_attention import decay_axes, first_state, only_real, state_step, with_length
from attention_research.kernels.triangular import unit_lower_solve


def delta_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B T N H"],
    value: Float[Array, "B T N Hv"],
    beta: Float[Array, "B T N"],
    *,
    log_decay: Float[Array, "B T N"] | Float[Array, "B T N H"] | None = None,
    mask: Bool[Array, "B T"] | None = None,
    reset: Bool[Array, "B T"] | None = None,
    initial_state: Float[Array, "B N H Hv"] | None = None,
    scale: Scale = None,
    chunk_size: int = 64,
) -> tuple[Float[Array, "B T N Hv"], Float[Array, "B N H Hv"]]:
    """Returns (output in the query's dtype, the state after the last position in float32).

    The arguments are those of `state_attention`, with `beta` instead of `read` and `write`.

    >>> one, values = jnp.ones((1, 2, 1, 1)), jnp.array([1.0, 3.0]).reshape(1, 2, 1, 1)
    >>> output, _ = delta_attention(one, one, values, jnp.full((1, 2, 1), 0.5))
    >>> print(output.ravel())  # half of the way from 0 to 1, then from there to 3
    [0.5  1.75]
    """
    _check(query, key, value, beta, log_decay, mask, reset, state=initial_state)
    (B, T, N, H), Hv = query.shape, value.shape[-1]
    state = first_state(B, N, H, Hv, query.dtype, initial_state)
    if T == 0:
        return jnp.zeros((B, T, N, Hv), query.dtype), state
    scale = H**-0.5 if scale is None else scale
    key, value, beta, log_decay = only_real(mask, key, value, beta, log_decay)
    by_channel = log_decay is not None and log_decay.ndim == 4

    def chunk(state: Array, xs: Inputs, decays: Decays | None, places: Places) -> tuple[Array, Array]:
        (query, known), (key,), (value,) = xs.rows, xs.columns, xs.values
        reach = None if decays is None else decays.total
        system = decay_products(known, reach, key, decays, places.strictly(), strict=True)
        written = unit_lower_solve(system, value - read_state(state, known, reach, places))
        scores = decay_products(query, reach, key, decays, places.pairs)
        output = read_state(state, query, reach, places) + jnp.einsum("BNti,BNiV->BNtV", scores, written)
        return carried(state, decays, places, (key, written)), output

    wide = lambda x: x.astype(state.dtype)
    inputs = Inputs((wide(query) * scale, times(wide(key), wide(beta))), (key,), (times(wide(value), wide(beta)),))
    output, state = over_chunks(chunk, state, inputs, log_decay, reset, chunk_length(T, chunk_size, by_channel))
    return output.astype(query.dtype), state


def delta_step(
    state: Float[Array, "B N H Hv"],
    query: Float[Array, "B N H"],
    key: Float[Array, "B N H"],
    value: Float[Array, "B N Hv"],
    beta: Float[Array, "B N"],
    *,
    log_decay: Float[Array, "B N"] | Float[Array, "B N H"] | None = None,
    mask: Bool[Array, "B"] | None = None,
    reset: Bool[Array, "B"] | None = None,
    scale: Scale = None,
) -> tuple[Float[Array, "B N H Hv"], Float[Array, "B N Hv"]]:
    """One position of `delta_attention`. Returns (next state, output).

    >>> state, one = jnp.zeros((1, 1, 1, 1)), jnp.ones((1, 1, 1))
    >>> for value in (1.0, 3.0):
    ...     state, output = delta_step(state, one, one, jnp.full((1, 1, 1), value), jnp.full((1, 1), 0.5))
    >>> output.item()
    1.75
    """
    _check(*map(with_length, (query, key, value, beta, log_decay, mask, reset)), state=state, name="state")
    wide = lambda x: x.astype(state.dtype)
    beta, read = wide(beta)[..., None], wide(key)
    read = read if log_decay is None else decayed(read, wide(log_decay))
    return state_step(
        state, query, key, beta * wide(value), log_decay=log_decay, read=read, write=-beta * wide(key), mask=mask,
        reset=reset, scale=scale,
    )  # fmt: skip


def _check(
    query: Array, key: Array, value: Array, beta: Array, log_decay: Array | None, mask: Array | None,
    reset: Array | None, *, state: Array | None, name: str = "initial_state",
) -> None:  # fmt: skip
    """Raises ValueError naming the argument and the axis."""
    check_shapes(
        query=(query, "B T N H"), key=(key, "B T N H"), value=(value, "B T N Hv"), beta=(beta, "B T N"),
        log_decay=decay_axes(log_decay), mask=(mask, "B T"), reset=(reset, "B T"),
        **{name: (state, "B N H Hv")},
    )  # fmt: skip
