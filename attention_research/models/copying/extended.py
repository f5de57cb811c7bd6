"""The extended vocabulary of models that copy: V known words, then the positions of the source.

Source and target hold ids of which those from V on are words that the vocabulary lacks: equal ids are equal words, and
nothing else is known of them, so that they are embedded as the unknown word. The output has V + S entries, S the width
of the source: entry V + s is the word that stands at s, where s is its first position. So the width is fixed, and a
search needs no word list of each row.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels.copying import copy_mixture_log_probability, pointer_generator
from attention_research.kernels.integers import as_int32
from attention_research.tokens import EOS, PAD, UNKNOWN


def known(tokens: Int[Array, "*B"], vocabulary_size: int) -> Int[Array, "*B"]:
    """The ids with the unknown word for those that the vocabulary lacks."""
    tokens = as_int32("tokens", tokens)
    return jnp.where(tokens < vocabulary_size, tokens, jnp.asarray(UNKNOWN, tokens.dtype))


def words(source: Int[Array, "B S"]) -> Bool[Array, "B S"]:
    """Where a word stands: what may be attended to and copied. The end of the source is none."""
    return (source != PAD) & (source != EOS)


def extended_ids(source: Int[Array, "B S"], vocabulary_size: int) -> Int[Array, "B S"]:
    """The entry of the extended vocabulary of each position: the word's id, or V + the first position of the word."""
    source = as_int32("source", source)
    first = jnp.argmax(source[:, :, None] == source[:, None, :], axis=-1).astype(source.dtype)
    return jnp.where(source < vocabulary_size, source, first + vocabulary_size)


def extended_log_probabilities(
    vocabulary_log_probabilities: Float[Array, "B V"],
    copy_probability: Float[Array, "B"],
    copy_weights: Float[Array, "B S"],
    source: Int[Array, "B S"],
) -> Float[Array, "B X"]:
    """log p of all X = V + S entries; a word that is both in the vocabulary and in the source gets both parts."""
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
    """log p of each target over both ways to it; `vocabulary_log_probability` is that of `known(target)`.

    A target that neither stands in the source nor in the vocabulary is the unknown word. One that does stand in the
    source is copied, or also generated as the unknown word at a price (`unknown_is_generated`: Allamanis et al. 2016,
    mu = exp(-10); See et al. 2017 have 0).
    """
    copyable = (target[:, :, None] == source[:, None, :]) & words(source)[:, None]
    outside = as_int32("target", target) >= vocabulary_size
    if not unknown_is_generated:
        impossible = outside & copyable.any(axis=-1)
        vocabulary_log_probability = jnp.where(impossible, -jnp.inf, vocabulary_log_probability)
        outside = None
    return copy_mixture_log_probability(
        copy_probability, copy_weights, copyable, vocabulary_log_probability, outside
    )
