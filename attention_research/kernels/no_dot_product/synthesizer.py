"""Random Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.2: softmax(R) G(X).

R [N T S] is a parameter, trained or fixed, the same for every example, and G(X) are the projected values. In a
Synthesizer, the attention weights of position i depend on no input (random) or only on X_i (dense), but never on the
keys. R is as large as the longest sequence; shorter inputs use its top left corner, `scores[..., :T, :S]`. The released
Mesh code is the same (R [512 heads 512], Glorot) and adds T5's relative bias to R.
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
    """softmax(scores) value for any scores. For a table, scores [1 N T S], the softmax is computed only once.

    `mask` is True where a position may attend. With `is_causal`, position i attends to values 0 to i. The softmax is
    computed in float32. A row with no visible position gives 0 with gradient 0. Memory is dense in T x S, as the scores
    are. Raises ValueError naming the argument and the axis.

    >>> scores, value = jnp.zeros((1, 1, 3, 3)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> print(synthesizer_attention(scores, value, is_causal=True)[0, :, 0])
    [[1.   0.   0.  ]
     [0.5  0.5  0.  ]
     [0.33 0.33 0.33]]
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
    """softmax(scores) over the visible positions, in the dtype of the scores. A row without them is all 0."""
    visible = combine_masks(mask, causal_mask(*scores.shape[-2:]) if is_causal else None)
    if visible is not None:
        scores = jnp.broadcast_to(scores, jnp.broadcast_shapes(scores.shape, visible.shape))
    return softmax_or_zero(scores, visible)
