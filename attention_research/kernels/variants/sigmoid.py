"""Sigmoid attention, Ramapuram et al. 2024 (arXiv 2409.04431): sigmoid(Q K^T / sqrt(H) + b) V with b = -log S.

The weights of different keys are independent and are not normalized. The bias makes the sum of the weights near 1 at
initialization. As in the paper, S is the number of key positions, including padding and future positions. If lengths
vary, pass the bias.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import Scale
from attention_research.kernels.shapes import check_shapes
from attention_research.kernels.symbolic import symbolic
from attention_research.kernels.variants.row_blocks import attend_by_rows


def sigmoid_attention(
    query: Float[Array, "B T N H"],
    key: Float[Array, "B S K H"],
    value: Float[Array, "B S K Hv"],
    logit_bias: Float[Array, "#N"] | None = None,
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    scale: Scale = None,
    is_causal: bool = False,
    local_window_size: int | tuple[int, int] | None = None,
    block_size: int = 512,
) -> Float[Array, "B T N Hv"]:
    """sigmoid(q k scale + logit_bias_n) value, with memory linear in the keys.

    `block_size` queries are computed at a time. `logit_bias` is [N] or [1]; None means -log S. Other arguments are
    those of `dot_product_attention`. A query with no visible key gives 0 with gradient 0. Raises ValueError naming the
    argument and the axis.

    >>> x, value = jnp.zeros((1, 2, 1, 2)), jnp.eye(2)[None, :, None]  # the result shows the weights
    >>> print(sigmoid_attention(x, x, value, jnp.array([0.0]))[0, :, 0])  # they do not sum to 1
    [[0.5 0.5]
     [0.5 0.5]]
    """
    check_shapes(query=(query, "B T N H"), logit_bias=(logit_bias, "#N"))

    def weigh(logits: Array, visible: Array | None) -> Array:
        offset = jnp.full((1,), -_log(key.shape[1])) if logit_bias is None else logit_bias
        return sigmoid_weights(logits, offset.astype(logits.dtype)[:, None, None], visible)

    return attend_by_rows(
        query, key, value, mask, weigh, scale=scale, is_causal=is_causal, local_window_size=local_window_size,
        block_size=block_size,
    )  # fmt: skip


def _log(length: Any) -> float | Float[Array, ""]:
    """The logarithm of a length, which may be symbolic."""
    return jnp.log(jnp.asarray(length).astype(jnp.float32)) if symbolic(length) else math.log(length)


def sigmoid_weights(
    logits: Float[Array, "B N T S"], logit_bias: float | Float[Array, "#N 1 1"], visible: Bool[Array, "..."] | None
) -> Float[Array, "B N T S"]:
    """sigmoid(logits + logit_bias), and 0 at keys that are not visible.

    >>> print(sigmoid_weights(jnp.zeros((1, 1, 1, 2)), 0.0, jnp.array([True, False])))
    [[[[0.5 0. ]]]]
    """
    weights = jax.nn.sigmoid(logits + logit_bias)
    return weights if visible is None else jnp.where(visible, weights, jnp.zeros_like(weights))
