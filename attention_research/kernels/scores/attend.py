"""The general attention layer, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equations 5 and 6:
alpha_ij = exp(e_ij) / sum_k exp(e_ik), c_i = sum_j alpha_ij v_j.

It converts any scores to weights, and averages the values with these weights. All soft attention mechanisms share it.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def attend(
    scores: Float[Array, "B T S"],
    values: Float[Array, "B S Dv"],
    mask: Bool[Array, "B S"] | Bool[Array, "#B #T #S"] | None = None,
) -> tuple[Float[Array, "B T Dv"], Float[Array, "B T S"]]:
    """Returns (context in the values' dtype, weights in float32): the softmax of the scores, times the values.

    `mask` is True where a query may attend. A mask [B S] holds the non-padding keys of each example, for all of its
    queries; a mask with three axes is broadcast to [B T S]. Keys with a score of -inf are masked. A query with no
    visible key has weights and context 0, with gradient 0. Raises ValueError naming the argument and the axis.

    >>> import jax.numpy as jnp
    >>> scores, values = jnp.array([[[0.0, 0.0, 5.0]]]), jnp.array([[[2.0], [4.0], [100.0]]])
    >>> context, weights = attend(scores, values, jnp.array([[True, True, False]]))
    >>> context.tolist(), weights.tolist()
    ([[[3.0]]], [[[0.5, 0.5, 0.0]]])
    """
    check_shapes(scores=(scores, "B T S"), values=(values, "B S Dv"))
    if mask is not None:
        mask = _three_axes(mask, scores)
    weights = softmax_or_zero(scores.astype(accumulator(scores.dtype)), mask)
    context = einsum("BTS,BSD->BTD", weights.astype(values.dtype), values)
    return context.astype(values.dtype), weights


def _three_axes(mask: Array, scores: Array) -> Array:
    """Converts the mask to [#B #T #S]."""
    if mask.dtype != jnp.bool_:
        raise ValueError(f"mask: expected bool (True = may attend), got {mask.dtype}")
    if mask.ndim == 2:
        check_shapes(scores=(scores, "B T S"), mask=(mask, "B S"))
        return mask[:, None, :]
    if mask.ndim != 3:
        raise ValueError(f"mask: expected [B S] or [B T S], got shape {list(mask.shape)}")
    check_shapes(scores=(scores, "B T S"), mask=(mask, "#B #T #S"))
    return mask
