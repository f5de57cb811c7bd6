"""Forgetting attention (FoX), Lin et al. 2025 (arXiv 2503.02130): softmax(Q K^T scale + G_i - G_j) V with
G_t = sum_{m<=t} log f_m.

Each head has a forget gate f_m in (0, 1) at every position. For every position m after a key, up to the query, log f_m,
which is negative, is added to the logit of the key. Constant gates f = e^-m give ALiBi with slope m, gates of 1 plain
attention. Packed examples need no reset, because only differences within an example count. G is one float32 sum over
the whole row, so that differences lose digits in proportion to its size: about 1e-7 |G|. The layer computes
log f = log sigmoid(x W + b).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention import dot_product_attention
from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def forget_bias(
    log_forget: Float[Array, "B S N"], query_length: int, *, query_offset: int | Int[Array, ""] = 0
) -> Float[Array, "B N T S"]:
    """G_i - G_j as a bias for the logits, in float32. Keys after the query get values of at least 0: mask them.

    `log_forget` has the gates of all keys, so that a decoding step passes those of its cache. `query_offset` is the
    position of the first query among the keys. Raises ValueError naming the argument and the axis.

    >>> print(forget_bias(jnp.full((1, 3, 1), -1.0), 3)[0, 0])  # constant gates: the distance
    [[ 0.  1.  2.]
     [-1.  0.  1.]
     [-2. -1.  0.]]
    """
    offset = as_int32("query_offset", query_offset)
    check_shapes(log_forget=(log_forget, "B S N"), query_offset=(offset, ""))
    sums = lax.cumsum(log_forget.astype(accumulator(log_forget.dtype)), axis=1).swapaxes(1, 2)
    if query_length == sums.shape[2] and isinstance(query_offset, int) and query_offset == 0:
        return sums[:, :, :, None] - sums[:, :, None, :]
    if sums.shape[2] == 0:
        return jnp.zeros((*sums.shape[:2], query_length, 0), sums.dtype)
    rows = jnp.arange(query_length, dtype=jnp.int32) + offset
    return jnp.take(sums, rows, axis=2, mode="clip")[:, :, :, None] - sums[:, :, None, :]


def forgetting_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    log_forget: Float[Array, "B S N"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    query_offset: int | Int[Array, ""] = 0,
    implementation: str | None = None,
) -> Float[Array, "B T N Hv"]:
    """Causal attention in which keys are forgotten by the gates of later positions.

    Query i is at position i + `query_offset` of the keys. Other arguments are those of `dot_product_attention`. Raises
    ValueError naming the argument and the axis.

    >>> x, value = jnp.zeros((1, 3, 1, 1)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> print(forgetting_attention(x, x, value, jnp.full((1, 3, 1), jnp.log(0.5)))[0, 2, 0])  # each key half the next
    [0.14 0.29 0.57]
    """
    check_shapes(query=(query, "B T N H"), key=(key, "B S K H"), log_forget=(log_forget, "B S N"))
    bias = forget_bias(log_forget, query.shape[1], query_offset=query_offset)
    return dot_product_attention(
        query, key, value, bias, mask, scale=scale, is_causal=True, query_offset=query_offset,
        implementation=implementation,
    )  # fmt: skip
