"""Local attention, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2, equation 10:
softmax(scores) exp(-(s - p_t)^2 / (2 sigma^2)).

The softmax is over the positions s with |s - p_t| <= D, and sigma = D / 2. Local-m: p_t = t, no Gaussian
(`jnp.arange(T)` as centers). Local-p: p_t = S sigmoid(v^T tanh(W h_t)), `predicted_centers`, with the Gaussian, which
multiplies after the softmax and is not normalised again. The centre is real and the window is the whole positions
within D of it: 2D or 2D + 1 of them. Positions start at 0, so that a centre in (S - 1, S] lies past the last one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def local_weights(
    scores: Float[Array, "B T S"],
    centers: Float[Array, "B T"],
    *,
    half_width: float | int,
    gaussian: bool,
    mask: Bool[Array, "#B #T #S"] | None = None,
    positions: Int[Array, "B T S"] | None = None,
) -> Float[Array, "B T S"]:
    """The weights of every position, 0 outside the window; float32; they sum to less than 1 under the Gaussian.

    The centers get a gradient through the Gaussian alone (none for local-m). `positions` says which position each
    score is for, where they are those of `local_window`; otherwise score s is for position s. A window without a
    visible key gives 0. Raises ValueError naming the argument and the axis, or a `half_width` that is no width.
    """
    axes = {"scores": (scores, "B T S"), "centers": (centers, "B T"), "mask": (mask, "#B #T #S")}
    S = check_shapes(**axes, positions=(positions, "B T S"))["S"]
    _check_half_width(half_width, least_is_allowed=not gaussian)
    dtype = accumulator(scores.dtype)
    positions = jnp.arange(S, dtype=jnp.int32) if positions is None else as_int32("positions", positions)
    distance = positions.astype(dtype) - centers.astype(dtype)[..., None]
    visible = jnp.abs(distance) <= half_width
    weights = softmax_or_zero(scores.astype(dtype), visible if mask is None else visible & mask)
    return weights * jnp.exp(-2 * jnp.square(distance / half_width)) if gaussian else weights


def predicted_centers(
    query: Float[Array, "B T Dq"], weight: Float[Array, "A Dq"], v: Float[Array, "A"], lengths: Int[Array, "B"]
) -> Float[Array, "B T"]:
    """p_t = S sigmoid(v^T tanh(W h_t)), equation 9, with the *real* length S of each sequence; float32, in [0, S]."""
    check_shapes(query=(query, "B T Dq"), weight=(weight, "A Dq"), v=(v, "A"), lengths=(lengths, "B"))
    lengths = as_int32("lengths", lengths)
    dtype = accumulator(query.dtype)
    hidden = jnp.tanh(einsum("BTD,AD->BTA", query, weight.astype(query.dtype)))
    return lengths.astype(dtype)[:, None] * jax.nn.sigmoid(einsum("BTA,A->BT", hidden, v.astype(dtype)))


def local_window(
    sequence: Float[Array, "B S D"],
    centers: Float[Array, "B T"],
    *,
    half_width: int,
    mask: Bool[Array, "B S"] | None = None,
) -> tuple[Float[Array, "B T W D"], Int[Array, "B T W"], Bool[Array, "B T W"]]:
    """(entries, positions, visible) of the W = 2 half_width + 1 positions from the first in each window on.

    For scores of the window alone, which cost T W instead of T S: with `entries` of the keys, scores [B T W] go into
    `local_weights(..., mask=visible, positions=positions)` and its weights onto `entries` of the values. `visible` is
    False outside the window (its last position, mostly: one fewer fits around a centre that is not whole), beyond the
    sequence's ends and where the [B S] mask is; such entries are 0. A centre may lie anywhere.
    """
    S = check_shapes(sequence=(sequence, "B S D"), centers=(centers, "B T"), mask=(mask, "B S"))["S"]
    _check_half_width(half_width, least_is_allowed=True)
    if S == 0:  # one position that nothing sees, so that there is something to index
        sequence = jnp.zeros((sequence.shape[0], 1, sequence.shape[2]), sequence.dtype)
        mask = jnp.zeros(sequence.shape[:2], bool)
    centers = jax.lax.stop_gradient(centers).astype(accumulator(centers.dtype))
    centers = jnp.clip(centers, -2 * half_width - 1, S + 2 * half_width)[..., None]
    first = jnp.ceil(centers - half_width).astype(jnp.int32)
    positions = first + jnp.arange(2 * half_width + 1, dtype=jnp.int32)
    index = jnp.clip(positions, 0, max(S, 1) - 1)
    visible = (positions == index) & (positions.astype(centers.dtype) <= centers + half_width)
    take = jax.vmap(lambda array, at: array[at])
    if mask is not None:
        visible = visible & take(mask, index)
    return jnp.where(visible[..., None], take(sequence, index), jnp.zeros((), sequence.dtype)), positions, visible


def _check_half_width(half_width: float | int, *, least_is_allowed: bool) -> None:
    if half_width < 0 or (half_width == 0 and not least_is_allowed):
        bound = "at least 0" if least_is_allowed else "above 0, since sigma is half of it"
        raise ValueError(f"half_width: expected a number {bound}, got {half_width}")
