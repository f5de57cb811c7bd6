"""The extended vocabulary of copying models: V known words, followed by the positions of the source.

Ids from V on in the source and the target are words outside the vocabulary. Equal ids are equal words, and these words
are embedded as the unknown word. The output has V + S entries, where S is the length of the source. Entry V + s is the
word at position s, if s is its first position. The size of the output is therefore fixed, and a search does not need a
word list for each row.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.copying import copy_mixture_log_probability, pointer_generator
from attention_research.kernels.integers import as_int32
from attention_research.tokens import EOS, PAD, UNKNOWN


def known(tokens: Int[Array, "*B"], vocabulary_size: int) -> Int[Array, "*B"]:
    """Replaces ids outside the vocabulary by the unknown word.

    >>> known(jnp.array([2, 7, 900]), 100).tolist()  # 900 becomes the unknown word
    [2, 7, 3]
    """
    tokens = as_int32("tokens", tokens)
    return jnp.where(tokens < vocabulary_size, tokens, jnp.asarray(UNKNOWN, tokens.dtype))


def words(source: Int[Array, "B S"]) -> Bool[Array, "B S"]:
    """The mask of the words, which may be attended to and copied. Padding and the end of the source are excluded."""
    return (source != PAD) & (source != EOS)


def extended_ids(source: Int[Array, "B S"], vocabulary_size: int) -> Int[Array, "B S"]:
    """The extended id of each position: the id of the word, or V + the first position of an unknown word.

    >>> extended_ids(jnp.array([[7, 900, 8, 900]]), 100).tolist()  # V + the first position of an unknown word
    [[7, 101, 8, 101]]
    """
    source = as_int32("source", source)
    first = jnp.argmax(source[:, :, None] == source[:, None, :], axis=-1).astype(source.dtype)
    return jnp.where(source < vocabulary_size, source, first + vocabulary_size)


def extended_log_probabilities(
    vocabulary_log_probabilities: Float[Array, "B V"],
    copy_probability: Float[Array, "B"],
    copy_weights: Float[Array, "B S"],
    source: Int[Array, "B S"],
) -> Float[Array, "B X"]:
    """log p of all X = V + S entries. A word that is both in the vocabulary and in the source has both parts."""
    size = vocabulary_log_probabilities.shape[-1]
    probabilities = pointer_generator(
        jnp.exp(vocabulary_log_probabilities)[:, None], copy_weights[:, None], extended_ids(source, size),
        1.0 - copy_probability[:, None], extra=source.shape[1], mask=words(source),
    )[:, 0]  # fmt: skip
    return jnp.where(probabilities > 0, jnp.log(jnp.maximum(probabilities, 1e-37)), -jnp.inf)


def mixture_log_likelihood(
    vocabulary_log_probability: Float[Array, "B T"],
    copy_probability: Float[Array, "B T"],
    copy_weights: Float[Array, "B T S"],
    source: Int[Array, "B S"],
    target: Int[Array, "B T"],
    vocabulary_size: int,
    *,
    unknown_is_generated: bool,
) -> Float[Array, "B T"]:
    """log p of each target, which can be generated from the vocabulary or copied from the source.

    `vocabulary_log_probability` is that of `known(target)`. A target that is neither in the source nor in the
    vocabulary is generated as the unknown word. A target outside the vocabulary that is in the source is copied. With
    `unknown_is_generated`, it can also be generated as the unknown word, multiplied by mu = exp(-10) (Allamanis et al.
    2016). In See et al. 2017, this factor is 0.
    """
    copyable = (target[:, :, None] == source[:, None, :]) & words(source)[:, None]
    outside = as_int32("target", target) >= vocabulary_size
    if not unknown_is_generated:
        impossible = outside & copyable.any(axis=-1)
        vocabulary_log_probability = jnp.where(impossible, -jnp.inf, vocabulary_log_probability)
        outside = None
    return copy_mixture_log_probability(copy_probability, copy_weights, copyable, vocabulary_log_probability, outside)
