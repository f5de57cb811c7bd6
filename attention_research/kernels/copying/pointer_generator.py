"""Pointer-generator network, See, Liu & Manning 2017 (arXiv 1704.04368), equations 8 and 9:
P(w) = p_gen P_vocab(w) + (1 - p_gen) sum_{i: w_i = w} a_i.

The extended vocabulary of an example consists of the V known words and the unknown words of its source. The latter have
the ids V, V+1, ... in the order of their first occurrence; `extra` is the largest number of such words in the batch.
Source ids are extended ids, also where the encoder embeds the unknown word. Lambda of Allamanis, Peng & Sutton is
1 - p_gen. `copy_mixture_log_probability` computes the log-probability of given targets without a [B T V] array.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.copying.copy_distribution import copy_distribution
from attention_research.kernels.precision import accumulator, einsum
from attention_research.kernels.shapes import check_shapes


def generation_probability(
    context: Float[Array, "B T Dv"],
    state: Float[Array, "B T Dq"],
    inputs: Float[Array, "B T D"],
    context_weight: Float[Array, "Dv"],
    state_weight: Float[Array, "Dq"],
    input_weight: Float[Array, "D"],
    bias: Float[Array, ""],
) -> Float[Array, "B T"]:
    """p_gen = sigmoid(w_h h* + w_s s_t + w_x x_t + b), equation 8, in float32.

    In the released code, the state is the LSTM's cell and output together, and x_t is the decoder's input merged with
    the previous context. Raises ValueError naming the axis.

    >>> context, state, inputs = jnp.ones((1, 1, 3)), jnp.ones((1, 1, 4)), jnp.ones((1, 1, 5))
    >>> weights = jnp.zeros(3), jnp.zeros(4), jnp.zeros(5)
    >>> generation_probability(context, state, inputs, *weights, jnp.array(0.0)).item()
    0.5
    """
    check_shapes(
        context=(context, "B T Dv"), state=(state, "B T Dq"), inputs=(inputs, "B T D"),
        context_weight=(context_weight, "Dv"), state_weight=(state_weight, "Dq"), input_weight=(input_weight, "D"),
        bias=(bias, ""),
    )  # fmt: skip
    logit = bias.astype(accumulator(context.dtype))
    for x, weight in ((context, context_weight), (state, state_weight), (inputs, input_weight)):
        logit = logit + einsum("BTD,D->BT", x, weight.astype(x.dtype))
    return jax.nn.sigmoid(logit)


def pointer_generator(
    vocabulary: Float[Array, "B T V"],
    weights: Float[Array, "B T S"],
    source_ids: Int[Array, "B S"],
    generate: Float[Array, "B T"],
    *,
    extra: int,
    mask: Bool[Array, "B S"] | None = None,
) -> Float[Array, "B T X"]:
    """P over X = V + extra words, equation 9, in float32.

    P_vocab is `vocabulary`, a is `weights` and p_gen is `generate`. A word that is in the vocabulary and in the source
    gets both terms. `mask` is True at non-padding source positions. Raises ValueError naming the axis.

    >>> vocabulary, weights = jnp.array([[[0.5, 0.5]]]), jnp.array([[[0.25, 0.75]]])
    >>> source_ids, generate = jnp.array([[1, 2]]), jnp.array([[0.5]])  # word 2 is not in the vocabulary of 2 words
    >>> pointer_generator(vocabulary, weights, source_ids, generate, extra=1).tolist()
    [[[0.25, 0.375, 0.375]]]
    """
    check_shapes(
        weights=(weights, "B T S"), source_ids=(source_ids, "B S"), mask=(mask, "B S"),
        vocabulary=(vocabulary, "B T V"), generate=(generate, "B T"),
    )  # fmt: skip
    dtype = accumulator(vocabulary.dtype)
    generate = generate.astype(dtype)[..., None]
    known = jnp.pad(vocabulary.astype(dtype), ((0, 0), (0, 0), (0, extra)))
    copied = copy_distribution(weights, source_ids, vocabulary.shape[-1] + extra, mask=mask).astype(dtype)
    return generate * known + (1 - generate) * copied
