"""Convolution as hard attention, Cordonnier, Loukas & Jaggi 2020 (arXiv 1911.03584), theorem 1:
conv(X)_q = sum_h sum_k a^h_{qk} X_k W_h, with a^h_{qk} = 1 where k - q = Delta_h and 0 elsewhere.

A K x K convolution equals K^2 heads. Each head attends with weight 1 to the pixel at its own offset and with weight 0
to all others. It has its own value matrix W_h, one tap of the filter, and the heads are summed. If the offset leads out
of the image, a head attends to no pixel and gives 0, which equals the zero padding of the convolution ("SAME", stride
1). Lemma 2: the softmax over -sharpness |k - q - Delta_h|^2 (`offset_scores`), a relative position encoding with three
numbers, converges to these weights as the sharpness grows. Images are [B Y X C]; positions are numbered row by row;
offsets are (y, x).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.vision.squeeze_excitation import only_real

MODES = ("gather", "weights")


def head_offsets(rows: int, columns: int) -> np.ndarray:
    """Delta_h [N 2] for the N = rows * columns taps of a filter, row by row. Even sizes extend further down or right.

    >>> head_offsets(1, 3).tolist()
    [[0, -1], [0, 0], [0, 1]]
    """
    taps = np.indices((rows, columns)).reshape(2, -1).T
    return taps - np.array([(rows - 1) // 2, (columns - 1) // 2])


def _relative(offsets: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """k - q - Delta_h for all heads, queries q and keys k: [N T S 2]."""
    pixels = np.indices((rows, columns)).reshape(2, -1).T
    return pixels[None, None] - pixels[None, :, None] - np.asarray(offsets)[:, None, None]


def offset_weights(offsets: np.ndarray, rows: int, columns: int) -> Float[Array, "N T S"]:
    """The one-hot weights a^h for an image of T = S = rows * columns; a row is 0 if the offset leads out of it.

    >>> weights = offset_weights(np.array([[0, 1]]), 1, 3)  # one head, which looks one column to the right
    >>> print(weights[0])
    [[0. 1. 0.]
     [0. 0. 1.]
     [0. 0. 0.]]
    """
    return jnp.asarray((_relative(offsets, rows, columns) == 0).all(-1), jnp.float32)


def offset_scores(offsets: np.ndarray, rows: int, columns: int, sharpness: float) -> Float[Array, "1 N T S"]:
    """-sharpness |k - q - Delta_h|^2, a bias for `dot_product_attention` that gives soft weights around Delta_h.

    If the offset leads out of the image, the weights are on the nearest pixels; use a mask to prevent this.

    >>> scores = offset_scores(head_offsets(3, 3), 4, 5, sharpness=1.0)
    >>> scores.shape  # one head for each of 9 offsets, one query and key for each of 20 places
    (1, 9, 20, 20)
    """
    squares = (_relative(offsets, rows, columns) ** 2).sum(-1)
    return jnp.asarray(-sharpness * squares, jnp.float32)[None]


def convolution_as_attention(
    x: Float[Array, "B Y X C"],
    kernel: Float[Array, "Ky Kx C F"],
    *,
    mode: str = "gather",
    mask: Bool[Array, "B Y X"] | None = None,
) -> Float[Array, "B Y X F"]:
    """The convolution of x with a filter, computed as the sum of Ky Kx heads of hard attention.

    `mode` "weights" forms the weights [N T S] and multiplies. It is quadratic in the number of pixels and meant for
    inspection. "gather" reads, for each head and query, the one value with weight 1, and is linear. `mask` is True at
    non-padding pixels; others are masked. Raises ValueError naming the axis, and for an unknown mode.

    >>> x, kernel = jnp.ones((1, 4, 4, 1)), jnp.ones((3, 3, 1, 1))
    >>> print(convolution_as_attention(x, kernel)[0, :, :, 0])  # the number of neighbours, as of a convolution
    [[4. 6. 6. 4.]
     [6. 9. 9. 6.]
     [6. 9. 9. 6.]
     [4. 6. 6. 4.]]
    """
    sizes = check_shapes(x=(x, "B Y X C"), mask=(mask, "B Y X"), kernel=(kernel, "Ky Kx C F"))
    if mode not in MODES:
        raise ValueError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    rows, columns = sizes["Y"], sizes["X"]
    offsets = head_offsets(sizes["Ky"], sizes["Kx"])
    pixels = only_real(x, mask).reshape(sizes["B"], rows * columns, sizes["C"])
    values = kernel.reshape(len(offsets), sizes["C"], sizes["F"]).astype(x.dtype)
    if mode == "weights":
        weights = offset_weights(offsets, rows, columns).astype(x.dtype)
        attended = einsum("NTS,BSC->BTNC", weights, pixels).astype(x.dtype)
    else:
        attended = _attended(pixels, offsets, rows, columns)
    output = einsum("BTNC,NCF->BTF", attended, values)
    return output.reshape(*x.shape[:3], sizes["F"]).astype(x.dtype)


def _attended(pixels: Array, offsets: np.ndarray, rows: int, columns: int) -> Array:
    """The pixel to which each head attends, for every query, [B T N C]; 0 if there is none."""
    at = np.indices((rows, columns)).reshape(2, -1).T[:, None] + offsets
    inside = ((at >= 0) & (at < (rows, columns))).all(-1)
    index = np.where(inside, at[..., 0] * columns + at[..., 1], 0).astype(np.int32)
    return jnp.where(jnp.asarray(inside)[..., None], pixels[:, index], jnp.zeros((), pixels.dtype))
