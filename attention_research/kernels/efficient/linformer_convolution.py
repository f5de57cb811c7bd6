"""Linformer with convolved keys and values, Wang et al. 2020 (arXiv 2006.04768), section 4 (general projections):
z_i = softmax(q_i conv(K)^T scale) conv(V), where row r of conv(X) is sum_w kernel_w * X_(r W + w).

It is a depthwise convolution over positions, whose kernel size and stride are both W (n / k in the paper). It has R =
ceil(S / W) cells; the last is padded with zeros. Padding is zeroed *before* the convolution, and a cell that contains
only padding is masked, so that more padding does not change the result. (The linear projection, which is made for one
length, keeps such cells as keys of 0.) The released code has only the linear projection. Any length is supported. The
attention cannot be causal.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.efficient.blocks import real_keys, split
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes

#: Axes of kernels: one kernel for all features, one per feature for all heads, or one per feature and head.
KERNELS = {1: "W", 2: "WH", 3: "WKH"}


def convolved_linformer_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    key_kernel: Float[Array, "W *C"],
    value_kernel: Float[Array, "W *Cv"],
    *,
    mask: Bool[Array, "B S"] | None = None,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Attention over ceil(S / W) convolved keys, with time and memory O(T S / W).

    A kernel is [W], one for all features; [W H], one per feature for all heads; or [W K H], one per feature and head.
    Kernels can be shared as linear projections are: one for keys and values, or one for the whole model. `mask` is True
    at non-padding keys. `scale` None means 1 / sqrt(H). An example without such keys gives 0. Raises ValueError naming
    the argument and the axis.

    >>> x = jnp.ones((1, 6, 1, 2))
    >>> kernel = jnp.full((3,), 1 / 3)  # one key for three positions
    >>> convolved_linformer_attention(x, x, x, kernel, kernel).shape
    (1, 6, 1, 2)
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), value=(value, "B S K Hv"), mask=(mask, "B S"))
    _check_kernel("key_kernel", key_kernel, "[W], [W H] or [W K H]", key.shape[2:])
    _check_kernel("value_kernel", value_kernel, "[W], [W Hv] or [W K Hv]", value.shape[2:])
    W = key_kernel.shape[0]
    if value_kernel.shape[0] != W:
        raise ValueError(f"value_kernel: axis W: expected key_kernel's {W}, got {value_kernel.shape[0]}")
    real = real_keys(mask, key.shape[1])
    key, value = (_convolve(x, kernel, real) for x, kernel in ((key, key_kernel), (value, value_kernel)))
    visible = jnp.any(split(real, W), axis=-1)[:, None, None, :]
    return dot_product_attention(query, key, value, mask=visible, scale=scale)


def _check_kernel(name: str, kernel: Array, expected: str, features: tuple[int, ...]) -> None:
    if kernel.ndim not in KERNELS or kernel.shape[1:] != features[3 - kernel.ndim :] or kernel.shape[0] == 0:
        raise ValueError(f"{name}: expected axes {expected} with features {list(features)}, got {list(kernel.shape)}")


def _convolve(x: Float[Array, "B S K H"], kernel: Float[Array, "W *C"], real: Array) -> Float[Array, "B R K H"]:
    """sum_w kernel_w x_(r W + w), sums in float32, in x's dtype."""
    cells = split(jnp.where(real[:, :, None, None], x, jnp.zeros_like(x)), kernel.shape[0])
    return einsum(f"BRWKH,{KERNELS[kernel.ndim]}->BRKH", cells, kernel.astype(x.dtype)).astype(x.dtype)
