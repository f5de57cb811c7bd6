"""Dense Synthesizer, Tay et al. 2020 (arXiv 2005.00743), section 3.1: softmax(relu(X W1 + b1) W2 + b2) G(X).

Row i of the scores is predicted from X_i alone, with one number per key position. W2 has one column for each key of the
longest sequence; shorter inputs use the first columns, `output_weight[..., :S]`. Head n has its own W1 and W2.

The released Mesh code has a different form, `released_dense_synthesizer_scores`: relu(q_n) Pi, where the hidden layer
is the query projection of head n, and all heads share Pi [H S], both without biases. Keys and values share one
projection.
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
    """relu(x W1 + b1) W2 + b2 for each head, in float32. Raises ValueError naming the argument and the axis.

    >>> hidden, output = (jnp.ones((6, 4, 5)), jnp.ones((6, 5))), (jnp.ones((6, 5, 3)), jnp.ones((6, 3)))
    >>> dense_synthesizer_scores(jnp.ones((1, 2, 4)), *hidden, *output).shape  # from each token alone, for 3 keys
    (1, 6, 2, 3)
    """
    check_shapes(
        x=(x, "B T D"),
        hidden_weight=(hidden_weight, "N D F"),
        hidden_bias=(hidden_bias, "N F"),
        output_weight=(output_weight, "N F S"),
        output_bias=(output_bias, "N S"),
    )
    hidden = einsum("BTD,NDF->BNTF", x, hidden_weight.astype(x.dtype))
    hidden = jax.nn.relu(hidden + hidden_bias.astype(hidden.dtype)[:, None]).astype(x.dtype)
    # The weight is the first operand, because XLA's CPU compiler rejects the other order of this bfloat16 product.
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
    """softmax(dense_synthesizer_scores(x, ...)) value, with the conventions of `synthesizer_attention`.

    To decode one position, pass its row x [B 1 D], the values so far (followed by zeros) and a mask of filled
    positions.

    >>> x, value = jnp.ones((1, 3, 4)), jnp.eye(3)[None, :, None]  # the result shows the weights
    >>> hidden, output = (jnp.ones((1, 4, 5)), jnp.zeros((1, 5))), (jnp.zeros((1, 5, 3)), jnp.zeros((1, 3)))
    >>> print(dense_synthesizer_attention(x, value, *hidden, *output)[0, :, 0])
    [[0.33 0.33 0.33]
     [0.33 0.33 0.33]
     [0.33 0.33 0.33]]
    """
    scores = dense_synthesizer_scores(x, hidden_weight, hidden_bias, output_weight, output_bias)
    check_shapes(x=(x, "B T D"), output_weight=(output_weight, "N F S"), value=(value, "B S N Hv"))
    return synthesizer_attention(scores, value, mask, is_causal=is_causal)


def released_dense_synthesizer_scores(
    query: Float[Array, "B T N H"], weight: Float[Array, "H S"]
) -> Float[Array, "B N T S"]:
    """The scores of the released code, relu(q_n) Pi, in float32. Raises ValueError naming the argument and the axis.

    >>> released_dense_synthesizer_scores(jnp.ones((1, 2, 6, 4)), jnp.ones((4, 3))).shape
    (1, 6, 2, 3)
    """
    check_shapes(query=(query, "B T N H"), weight=(weight, "H S"))
    return einsum("HS,BTNH->BNTS", weight.astype(query.dtype), jax.nn.relu(query))  # the weight is first, as above


def released_dense_synthesizer_attention(
    query: Float[Array, "B T N H"],
    value: Float[Array, "B S N Hv"],
    weight: Float[Array, "H S"],
    mask: Bool[Array, "#B #N #T #S"] | None = None,
    *,
    is_causal: bool = False,
) -> Float[Array, "B T N Hv"]:
    """softmax(relu(q_n) Pi) value, with the conventions of `synthesizer_attention`.

    >>> query, value = jnp.ones((1, 3, 2, 4)), jnp.ones((1, 3, 2, 4))
    >>> released_dense_synthesizer_attention(query, value, jnp.ones((4, 3))).shape
    (1, 3, 2, 4)
    """
    check_shapes(query=(query, "B T N H"), weight=(weight, "H S"), value=(value, "B S N Hv"))
    return synthesizer_attention(released_dense_synthesizer_scores(query, weight), value, mask, is_causal=is_causal)
