"""Linformer with pooled keys and values, Wang et al. 2020 (arXiv 2006.04768), section 4 (general projections):
z_i = softmax(q_i pool(K)^T scale) pool(V), where row r of pool(X) is the mean (or the largest) of the rows
r * stride .. r * stride + stride - 1 of X.

Kernel size and stride are equal (n / k in the paper): stride = ceil(S / rank). This gives ceil(S / stride) cells, at
most `rank`, and the last cell may be shorter. Padding is excluded *before* pooling: a cell is the mean of its
non-padding positions, and a cell without such positions is masked. The released code has only the linear projection.
There are no parameters. Any length is supported. The attention cannot be causal.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.efficient.blocks import real_keys, split
from attention_research.kernels.largest import largest
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import expect_numbers

POOLINGS = ("mean", "max")


def pooled_linformer_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    *,
    rank: int,
    pooling: str = "mean",
    mask: Bool[Array, "B S"] | None = None,
    scale: Scale = None,
) -> Float[Array, "B T N Hv"]:
    """Attention over at most `rank` pooled keys, with time and memory O(T rank).

    `pooling` is "mean" or "max" (of each feature separately). `mask` is True at non-padding keys. `scale` None means
    1 / sqrt(H). An example without such keys gives 0. Raises ValueError naming the argument and the axis.

    >>> query, value = jnp.zeros((1, 1, 1, 2)), jnp.array([1.0, 3.0, 5.0, 7.0]).reshape(1, 4, 1, 1)
    >>> key = jnp.zeros((1, 4, 1, 2))
    >>> pooled_linformer_attention(query, key, value, rank=2, pooling="max").item()  # the mean of 3 and 7
    5.0
    """
    if pooling not in POOLINGS:
        raise ValueError(f"pooling: expected one of {', '.join(POOLINGS)}, got {pooling!r}")
    if rank < 1:
        raise ValueError(f"rank: expected at least 1, got {rank}")
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), value=(value, "B S K Hv"), mask=(mask, "B S"))
    expect_numbers("rank", S=key.shape[1])
    stride = max(1, math.ceil(key.shape[1] / rank))
    real = split(real_keys(mask, key.shape[1]), stride)  # [B R stride]
    key, value = (_pool(x, real, stride, pooling) for x in (key, value))
    return dot_product_attention(query, key, value, mask=jnp.any(real, axis=-1)[:, None, None, :], scale=scale)


def _pool(
    x: Float[Array, "B S K H"], real: Bool[Array, "#B R stride"], stride: int, pooling: str
) -> Float[Array, "B R K H"]:
    """The mean or maximum of the non-padding positions of each cell, or 0 if there are none; sums in float32."""
    cells, real = split(x, stride), real[..., None, None]
    if pooling == "max":
        top = largest(jnp.where(real, cells, -jnp.inf), 2)
        return jnp.where(jnp.any(real, axis=2), top, jnp.zeros_like(top))
    cells = jnp.where(real, cells, jnp.zeros_like(cells)).astype(accumulator(x.dtype))
    count = jnp.maximum(jnp.sum(real, axis=2, dtype=jnp.int32), 1).astype(cells.dtype)
    return (jnp.sum(cells, axis=2) / count).astype(x.dtype)
