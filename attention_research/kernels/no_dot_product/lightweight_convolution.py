"""Lightweight convolution, Wu et al. 2019 (arXiv 1901.10430), section 3: y_ic = sum_w softmax(W_h)_w x_(i+w-left),c.

This is a depthwise convolution whose kernel [N W] is normalized over its W taps and shared by the D/N neighbouring
channels of a head (h = floor(c N / D), c from 0). Symmetric: left = floor(W / 2), as in the paper also for an even W
(fairseq has one position less on the left). Causal: left = W - 1, so that the last tap is the position itself.

The released Mesh code of Narang et al. 2021 ignores its sharing argument: every channel has its own kernel, which is
N = D here. It adds a bias [D] afterwards, and zeroes padding first, as `mask` does. Weights on padding or outside the
sequence are dropped, and the other weights are not renormalized. Time is O(T W D), and no T x T array is formed.
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
    """y[b, i, c] = sum_w weights[b, i, head of c, w] x[b, i + w - left, c], with sums in float32.

    `mask` is True at non-padding positions [B T], or where position i attends to position i + w - left [B T W]. Other
    positions count as 0.
    """
    B, T, D = x.shape
    N, W = weights.shape[-2:]
    if D % N:
        raise ValueError(f"x: axis D of [B T D]: expected a multiple of the {N} heads, got {D}")
    of_taps = mask is not None and mask.ndim == 3
    if mask is not None and not of_taps:
        x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
    heads = jnp.pad(x.reshape(B, T, N, D // N), [(0, 0), (left, W - 1 - left), (0, 0), (0, 0)])

    @jax.checkpoint  # so that the gradient keeps x and the weights, not W shifted copies of x
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
    """The depthwise convolution of x with softmax(kernel) over W.

    N divides D; with N = D, channels do not share kernels. `mask` is True at non-padding positions; padding counts as
    0. A window of only padding gives 0 with gradient 0. Raises ValueError naming the argument and the axis.

    >>> lightweight_convolution(jnp.array([[[2.0], [4.0], [8.0]]]), jnp.zeros((1, 2)), is_causal=True)[0, :, 0].tolist()
    [1.0, 3.0, 6.0]
    """
    W = check_shapes(x=(x, "B T D"), mask=(mask, "B T"), kernel=(kernel, "N W"))["W"]
    return convolve(x, _normalised(x, kernel), W - 1 if is_causal else W // 2, mask)


def lightweight_convolution_step(
    state: Float[Array, "B P D"], x: Float[Array, "B D"], kernel: Float[Array, "N W"]
) -> tuple[Float[Array, "B P D"], Float[Array, "B D"]]:
    """Decodes one position of the causal form. Returns (the last P = W - 1 inputs, the output).

    The initial state is zeros. Pass a padding position as 0. Raises ValueError naming the argument and the axis.

    >>> state, kernel = jnp.zeros((1, 2, 1)), jnp.zeros((1, 3))  # equal weights for the last 3 positions
    >>> for number in (1.0, 2.0, 6.0):
    ...     state, y = lightweight_convolution_step(state, jnp.full((1, 1), number), kernel)
    >>> print(y)
    [[3.]]
    """
    check_shapes(x=(x, "B D"), kernel=(kernel, "N W"), state=(state, f"B {kernel.shape[1] - 1} D"))
    return advance(state, x, _normalised(x, kernel))


def advance(
    state: Float[Array, "B P D"], x: Float[Array, "B D"], weights: Float[Array, "#B 1 N W"]
) -> tuple[Float[Array, "B P D"], Float[Array, "B D"]]:
    """Returns (next state, output), computed from the last W inputs and their weights."""
    if x.shape[1] % weights.shape[2]:
        raise ValueError(f"x: axis D of [B D]: expected a multiple of the {weights.shape[2]} heads, got {x.shape[1]}")
    window = jnp.concatenate([state, x[:, None]], axis=1)
    P = state.shape[1]
    heads = window.reshape(*window.shape[:2], weights.shape[2], -1)
    output = jnp.sum(weights[:, 0].swapaxes(1, 2)[..., None] * heads.astype(weights.dtype), axis=1)
    return window[:, window.shape[1] - P :], output.astype(x.dtype).reshape(x.shape)


def _normalised(x: Array, kernel: Array) -> Float[Array, "1 1 N W"]:
    return jax.nn.softmax(kernel.astype(accumulator(x.dtype)), axis=-1)[None, None]
