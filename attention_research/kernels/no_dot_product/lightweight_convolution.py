"""Lightweight convolution, Wu et al. 2019 (arXiv 1901.10430), section 3: y_ic = sum_w softmax(W_h)_w x_(i+w-left),c.

A depthwise convolution whose kernel [N W] is normalised over its W taps and shared by the D/N neighbouring channels
of a head (h = floor(c N / D), c from 0). Symmetric: left = floor(W / 2), as the paper also for an even W (fairseq has
one position less to the left there). Causal: left = W - 1, so that the last tap is the position itself.

The released Mesh code of Narang et al. 2021 drops its sharing argument: there every channel has a kernel of its own,
which is N = D here. It adds a bias [D] afterwards, and sets padding to 0 first, as `mask` does. Weights that fall on
padding or outside the sequence are lost, not redistributed. Time O(T W D); nothing of T x T is formed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def convolve(
    x: Float[Array, "B T D"],
    weights: Float[Array, "#B #T N W"],
    left: int,
    mask: Bool[Array, "B T"] | Bool[Array, "B T W"] | None,
) -> Float[Array, "B T D"]:
    """y[b, i, c] = sum_w weights[b, i, head of c, w] x[b, i + w - left, c]; sums in float32.

    `mask` is True at real positions, or, [B T W], where position i sees position i + w - left; the others count as 0.
    """
    B, T, D = x.shape
    N, W = weights.shape[-2:]
    if D % N:
        raise ValueError(f"x: axis D of [B T D]: expected a multiple of the {N} heads, got {D}")
    of_taps = mask is not None and mask.ndim == 3
    if mask is not None and not of_taps:
        x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
    heads = jnp.pad(x.reshape(B, T, N, D // N), [(0, 0), (left, W - 1 - left), (0, 0), (0, 0)])

    @jax.checkpoint  # for the gradient, x and the weights are kept, not W shifted copies of x
    def taps(heads, weights):
        def at(tap):
            y = heads[:, tap : tap + T].astype(weights.dtype)
            if mask is None or not of_taps:
                return y
            return jnp.where(mask[:, :, tap, None, None], y, jnp.zeros_like(y))

        return sum(weights[..., tap, None] * at(tap) for tap in range(W))

    return taps(heads, weights).astype(x.dtype).reshape(B, T, D)


def lightweight_convolution(
    x: Float[Array, "B T D"],
    kernel: Float[Array, "N W"],
    *,
    mask: Bool[Array, "B T"] | None = None,
    is_causal: bool = False,
) -> Float[Array, "B T D"]:
    """The convolution of x with softmax(kernel) over W, channel by channel; N divides D, and N = D shares nothing.

    `mask` is True at real positions: the others count as 0. A window without real positions gives 0 with gradient 0.
    Raises ValueError naming the argument and the axis.

    >>> lightweight_convolution(jnp.array([[[2.0], [4.0], [8.0]]]), jnp.zeros((1, 2)), is_causal=True)[0, :, 0].tolist()
    [1.0, 3.0, 6.0]
    """
    W = check_shapes(x=(x, "B T D"), mask=(mask, "B T"), kernel=(kernel, "N W"))["W"]
    return convolve(x, _normalised(x, kernel), W - 1 if is_causal else W // 2, mask)


def lightweight_convolution_step(
    state: Float[Array, "B P D"], x: Float[Array, "B D"], kernel: Float[Array, "N W"]
) -> tuple[Float[Array, "B P D"], Float[Array, "B D"]]:
    """One position of the causal form: (the last P = W - 1 inputs, the output); the first state is zeros.

    A padded position is passed as 0. Raises ValueError naming the argument and the axis.
    """
    check_shapes(x=(x, "B D"), kernel=(kernel, "N W"), state=(state, f"B {kernel.shape[1] - 1} D"))
    return advance(state, x, _normalised(x, kernel))


def advance(
    state: Float[Array, "B P D"], x: Float[Array, "B D"], weights: Float[Array, "#B 1 N W"]
) -> tuple[Float[Array, "B P D"], Float[Array, "B D"]]:
    """(next state, output) from the last W inputs and their weights."""
    window = jnp.concatenate([state, x[:, None]], axis=1)
    P = state.shape[1]
    heads = window.reshape(*window.shape[:2], weights.shape[2], -1)
    output = jnp.sum(weights[:, 0].swapaxes(1, 2)[..., None] * heads.astype(weights.dtype), axis=1)
    return window[:, window.shape[1] - P :], output.astype(x.dtype).reshape(x.shape)


def _normalised(x: Array, kernel: Array) -> Float[Array, "1 1 N W"]:
    return jax.nn.softmax(kernel.astype(accumulator(x.dtype)), axis=-1)[None, None]
