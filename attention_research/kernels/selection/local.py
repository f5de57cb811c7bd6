"""Local attention, Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2, equation 10:
softmax(scores) exp(-(s - p_t)^2 / (2 sigma^2)).

The softmax is over the positions s with |s - p_t| <= D, and sigma = D / 2. Local-m has p_t = t and no Gaussian (centers
`jnp.arange(T)`). Local-p has p_t = S sigmoid(v^T tanh(W h_t)), `predicted_centers`, and the Gaussian, which multiplies
the softmax without renormalization. The centre is a real number. The window contains the integer positions within
distance D of it, which are 2D or 2D + 1 positions. Positions start at 0, so that a centre in (S - 1, S] is after the
last position.
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
    """The weights of all positions, in float32. They are 0 outside the window.

    With the Gaussian, they sum to less than 1.
    The gradient reaches the centers only through the Gaussian (for local-m, there is none). `positions` holds the
    position of each score, if the scores are for the positions of `local_window`; by default, score s is for position
    s. A window without a visible key gives 0. Raises ValueError naming the argument and the axis, and for an invalid
    `half_width`.

    >>> weights = local_weights(jnp.zeros((1, 1, 6)), jnp.array([[2.0]]), half_width=1, gaussian=False)
    >>> print(weights)  # softmax over positions 1, 2 and 3
    [[[0.   0.33 0.33 0.33 0.   0.  ]]]
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
    """p_t = S sigmoid(v^T tanh(W h_t)), equation 9, for lengths S without padding. In float32, in [0, S].

    >>> query, weight, v = jnp.ones((1, 2, 3)), jnp.ones((4, 3)), jnp.zeros(4)
    >>> predicted_centers(query, weight, v, jnp.array([9])).tolist()  # S sigmoid(0)
    [[4.5, 4.5]]
    """
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
    """Returns (entries, positions, visible) of the W = 2 half_width + 1 positions from the start of each window on.

    It serves to compute scores only in the window, which costs T W instead of T S: pass the scores [B T W] of the
    `entries` of the keys to `local_weights(..., mask=visible, positions=positions)`, and apply the weights to the
    `entries` of the values. `visible` is False outside the window (usually at the last position, because a window with
    a non-integer centre has one position less), outside the sequence, and where the mask [B S] is False. Such entries
    are 0. A centre may be anywhere.

    >>> sequence = jnp.arange(6.0).reshape(1, 6, 1)
    >>> window, positions, inside = local_window(sequence, jnp.array([[5.0]]), half_width=1)
    >>> positions.tolist(), inside.tolist()  # position 6 is beyond the end
    ([[[4, 5, 6]]], [[[True, True, False]]])
    """
    S = check_shapes(sequence=(sequence, "B S D"), centers=(centers, "B T"), mask=(mask, "B S"))["S"]
    _check_half_width(half_width, least_is_allowed=True)
    if S == 0:  # one masked position, so that indexing is possible
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
        bound = "at least 0" if least_is_allowed else "above 0, because sigma is half of it"
        raise ValueError(f"half_width: expected a number {bound}, got {half_width}")
