"""Attention with a learned alpha-entmax, Correia, Niculae & Martins 2019 (arXiv 1909.00015):
p_ij = [(alpha_n - 1) z_ij - tau_i]_+^(1 / (alpha_n - 1)) with z = Q K^T scale and tau_i such that sum_j p_ij = 1,
then times V.

alpha near 1 gives the softmax, 2 the sparsemax. tau is found by bisection, which is not differentiated: the gradient of
z and of alpha is that of the exact tau (proposition 1 of the paper).
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.variants.row_blocks import attend_by_rows
from attention_research.kernels.variants.sparsemax import below_largest, powers_above


def entmax(
    logits: Float[Array, "*B S"], alpha: Float[Array, "..."], visible: Bool[Array, "..."] | None = None
) -> Float[Array, "*B S"]:
    """alpha-entmax over the visible entries of the last axis, or 0 with gradient 0 if no entry is visible.

    `alpha` broadcasts against [*B 1]. It is above 1 and at most 2. The weights are computed in at least float32, where
    their relative error is about 1e-7 / (alpha - 1). The smallest supported alpha - 1 is 2^-10. Far below it, the
    weights do not sum to 1.

    >>> print(entmax(jnp.array([1.0, 0.8, -1.0]), jnp.array([2.0])))
    [0.6 0.4 0. ]
    """
    if logits.shape[-1] == 0:
        return logits
    dtype, logits = logits.dtype, logits.astype(accumulator(logits.dtype))
    logits = logits if visible is None else jnp.where(visible, logits, -jnp.inf)
    alpha = alpha.astype(logits.dtype)
    power = 1 / (alpha - 1)
    weights = powers_above((alpha - 1) * below_largest(logits, -2 * power), power, logits > -jnp.inf)
    return weights.astype(dtype)


def entmax_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    alpha: Float[Array, "#N"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    query_offset: int | Int[Array, ""] = 0,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """entmax(q k scale, alpha_n) value, with memory linear in the keys.

    `alpha` is [N] or [1], at least 1 + 2^-10 and at most 2. `block_size` queries are computed at a time. Other
    arguments are those of `dot_product_attention`. A query with no visible key gives 0 with gradient 0. Raises
    ValueError naming the argument and the axis.

    >>> x, value = jnp.array([0.0, 2.0]).reshape(1, 2, 1, 1), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(entmax_attention(x, x, value, jnp.array([1.5]))[0, :, 0])
    [[0.5 0.5]
     [0.  1. ]]
    """
    check_shapes(query=(query, "B T N H"), alpha=(alpha, "#N"))

    def weigh(logits: Array, visible: Array | None) -> Array:
        return entmax(logits, alpha[:, None, None], visible)

    return attend_by_rows(
        query, key, value, mask, weigh, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        query_offset=query_offset, block_size=block_size,
    )  # fmt: skip
