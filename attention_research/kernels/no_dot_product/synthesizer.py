"""Random Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.2: softmax(R) G(X).

R [N T S] is a parameter, trained or fixed, the same for every example; G(X) are the projected values. Position i of
any Synthesizer learns where to look from nothing (random) or from X_i alone (dense), never from the keys. R has the
largest length that it was made for: shorter inputs take its top left corner, `scores[..., :T, :S]`. The released
Mesh code is the same (R [512 heads 512], Glorot), and adds T5's relative bias to R.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.attention.arguments import softmax_or_zero
from attention_research.kernels.masks import causal_mask, combine_masks
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def synthesizer_attention(
    scores: Float[Array, "#B N T S"],
    value: Float[Array, "B S N Hv"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
) -> Float[Array, "B T N Hv"]:
    """softmax(scores) value, whatever made the scores; a table is scores [1 N T S], its softmax taken once.

    `mask` is True where a position may look; `is_causal` shows position i the values 0..i. Softmax in float32. A row
    that may look at nothing gives 0 with gradient 0. Dense in T x S, as the scores are. Raises ValueError naming the
    argument and the axis.
    """
    check_shapes(scores=(scores, "#B N T S"), value=(value, "B S N Hv"), mask=(mask, "#B #N #T #S"))
    weights = synthesizer_weights(scores.astype(accumulator(value.dtype)), mask, is_causal=is_causal)
    weights = weights.astype(value.dtype)
    if weights.shape[0] == 1:
        context = einsum("NTS,BSNH->BTNH", weights[0], value)
    else:
        context = einsum("BNTS,BSNH->BTNH", weights, value)
    return jnp.asarray(context, value.dtype)


def synthesizer_weights(
    scores: Float[Array, "#B N T S"], mask: Bool[Array, "#B #N #T #S"] | None = None, *, is_causal: bool = False
) -> Float[Array, "#B N T S"]:
    """softmax(scores) over what a position may look at, in the dtype of the scores; a row of nothing is all 0."""
    visible = combine_masks(mask, causal_mask(*scores.shape[-2:]) if is_causal else None)
    if visible is not None:
        scores = jnp.broadcast_to(scores, jnp.broadcast_shapes(scores.shape, visible.shape))
    return softmax_or_zero(scores, visible)
