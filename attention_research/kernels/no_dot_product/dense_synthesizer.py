"""Dense Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.1: softmax(relu(X W1 + b1) W2 + b2) G(X).

Row i of the scores is predicted from X_i alone, one number a key position: W2 has as many columns as there are keys
(the largest length; shorter inputs take the first, `output_weight[..., :S]`). Head n has its own W1 and W2.

The released Mesh code runs another form, `released_dense_synthesizer_scores`: relu(q_n) Pi, where the hidden layer
is the usual query projection of head n and Pi [H S] is shared by the heads, both without biases; keys and values are
one projection.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Bool, Float

from attention_research.kernels.no_dot_product.synthesizer import synthesizer_attention
from attention_research.kernels.precision import einsum
from attention_research.kernels.shapes import check_shapes


def dense_synthesizer_scores(
    x: Float[Array, "B T D"],
    hidden_weight: Float[Array, "N D F"],
    hidden_bias: Float[Array, "N F"],
    output_weight: Float[Array, "N F S"],
    output_bias: Float[Array, "N S"],
) -> Float[Array, "B N T S"]:
    """relu(x W1 + b1) W2 + b2, head by head, in float32. Raises ValueError naming the argument and the axis."""
    check_shapes(
        x=(x, "B T D"),
        hidden_weight=(hidden_weight, "N D F"),
        hidden_bias=(hidden_bias, "N F"),
        output_weight=(output_weight, "N F S"),
        output_bias=(output_bias, "N S"),
    )
    hidden = einsum("BTD,NDF->BNTF", x, hidden_weight.astype(x.dtype))
    hidden = jax.nn.relu(hidden + hidden_bias.astype(hidden.dtype)[:, None]).astype(x.dtype)
    # The weight first: with the other order XLA's CPU compiler refuses a product of bfloat16 that is float32.
    scores = einsum("NFS,BNTF->BNTS", output_weight.astype(x.dtype), hidden)
    return scores + output_bias.astype(scores.dtype)[:, None]


def dense_synthesizer_attention(
    x: Float[Array, "B T D"],
    value: Float[Array, "B S N Hv"],
    hidden_weight: Float[Array, "N D F"],
    hidden_bias: Float[Array, "N F"],
    output_weight: Float[Array, "N F S"],
    output_bias: Float[Array, "N S"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
) -> Float[Array, "B T N Hv"]:
    """softmax(dense_synthesizer_scores(x, ...)) value, under the conventions of `synthesizer_attention`.

    One position is decoded by its row x [B 1 D], the values so far (zeros after) and a mask of what is filled.
    """
    scores = dense_synthesizer_scores(x, hidden_weight, hidden_bias, output_weight, output_bias)
    check_shapes(x=(x, "B T D"), output_weight=(output_weight, "N F S"), value=(value, "B S N Hv"))
    return synthesizer_attention(scores, value, mask, is_causal=is_causal)


def released_dense_synthesizer_scores(
    query: Float[Array, "B T N H"], weight: Float[Array, "H S"]
) -> Float[Array, "B N T S"]:
    """relu(q_n) Pi, in float32: the released code's scores. Raises ValueError naming the argument and the axis."""
    check_shapes(query=(query, "B T N H"), weight=(weight, "H S"))
    return einsum("HS,BTNH->BNTS", weight.astype(query.dtype), jax.nn.relu(query))  # weight first, as above


def released_dense_synthesizer_attention(
    query: Float[Array, "B T N H"],
    value: Float[Array, "B S N Hv"],
    weight: Float[Array, "H S"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
) -> Float[Array, "B T N Hv"]:
    """softmax(relu(q_n) Pi) value, under the conventions of `synthesizer_attention`."""
    check_shapes(query=(query, "B T N H"), weight=(weight, "H S"), value=(value, "B S N Hv"))
    return synthesizer_attention(released_dense_synthesizer_scores(query, weight), value, mask, is_causal=is_causal)
