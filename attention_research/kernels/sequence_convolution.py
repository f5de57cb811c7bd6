"""Convolution along a sequence, Waibel et al. 1989 (time-delay networks): y_i = sum_w x_(i+w-left) K_w, K [W D O].

With a dilation d (Yu & Koltun 2016), neighbours are d positions apart: y_i = sum_w x_(i+d(w-left)) K_w. Every output
channel depends on all input channels of W neighbours. (For depthwise convolution, see `convolve` of lightweight
convolution.) The sequence is padded with zeros, and kernels are not flipped.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.shapes import check_shapes


def sequence_convolution(
    x: Float[Array, "B T D"],
    kernel: Float[Array, "W D O"],
    *,
    left: int,
    dilation: int = 1,
    mask: Bool[Array, "B T"] | Bool[Array, "B T W"] | None = None,
) -> Float[Array, "B T O"]:
    """The convolution in x's dtype, with sums in float32. With `left` W // 2 it is centred, with W - 1 causal.

    `mask` is True at non-padding positions [B T], or where position i attends to position i + dilation (w - left)
    [B T W]. Other positions count as 0. With a mask [B T W], the windows of all positions are laid out next to each
    other, which takes W times the memory of x. Raises ValueError naming the argument and the axis.

    >>> x, kernel = jnp.asarray([[[1.0], [2.0], [4.0]]]), jnp.asarray([10.0, 1.0]).reshape(2, 1, 1)
    >>> sequence_convolution(x, kernel, left=1)[0, :, 0].tolist()
    [1.0, 12.0, 24.0]
    """
    of_taps = mask is not None and mask.ndim == 3
    sizes = check_shapes(x=(x, "B T D"), kernel=(kernel, "W D O"), mask=(mask, "B T W" if of_taps else "B T"))
    W, T, stride = sizes["W"], sizes["T"], 1
    if not 0 <= left < W:
        raise ValueError(f"left: expected 0 to {W - 1}, got {left}")
    if mask is not None and not of_taps:
        x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
    x = jnp.pad(x, [(0, 0), (dilation * left, dilation * (W - 1 - left)), (0, 0)])
    if mask is not None and of_taps:
        windows = jnp.stack([x[:, tap : tap + T] for tap in range(0, dilation * W, dilation)], axis=2)
        windows = jnp.where(mask[..., None], windows, jnp.zeros_like(windows))
        x, stride, dilation = windows.reshape(x.shape[0], T * W, x.shape[2]), W, 1
    return jax.lax.conv_general_dilated(
        x,
        kernel.astype(x.dtype),
        (stride,),
        "VALID",
        rhs_dilation=(dilation,),
        dimension_numbers=("NWC", "WIO", "NWC"),
    )
