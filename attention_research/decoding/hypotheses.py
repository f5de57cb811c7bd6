"""What decoding gives back, and the three conventions that every search shares: limits, allowed tokens, scores."""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.tokens import BOS, EOS, PAD


class Decoded(NamedTuple):
    """The hypotheses of each source row, best first.

    ``lengths`` counts the tokens including EOS, without which only a search that cuts at its limit ends; ``tokens``
    holds 0 after them. A row with fewer hypotheses than ``K`` ends in empty ones: length 0, tokens 0, score and
    log-probability -inf. ``log_probabilities`` are the sums of what the tokens cost, EOS included: the model's own
    log-probabilities; ``scores`` are what the search ranks by.
    """

    tokens: Int[Array, "B K T"]
    scores: Float[Array, "B K"]
    log_probabilities: Float[Array, "B K"]
    lengths: Int[Array, "B K"]


def number_of_rows(source: Mapping[str, Array]) -> int:
    """How many sources there are: texts ("tokens" [B S]) or pictures ("image" [B Y X C])."""
    return source["image" if "image" in source else "tokens"].shape[0]


def length_limits(source: Mapping[str, Array], extra_length: int, max_length: int) -> Int[Array, "B"]:
    """How many tokens, EOS included, each row may have: its source length + `extra_length`, at most `max_length`.

    The source length is the number of tokens that are not padding (0), as they stand (a closing EOS counts, as the
    target's does). A row without a real token (padding of a batch) may have one token only, so that it costs nothing.
    Vaswani et al. 2017, section 6.1: input length + 50. A picture has no length: its text may be as long as any; a
    black one is a batch's padding.
    """
    if "image" in source:
        real = jnp.any(source["image"] != 0, axis=(1, 2, 3))
        return jnp.where(real, max_length, 1).astype(jnp.int32)
    lengths = jnp.sum(source["tokens"] != PAD, axis=1, dtype=jnp.int32)
    return jnp.where(lengths > 0, jnp.clip(lengths + extra_length, 1, max_length), 1)


def allowed_tokens(vocabulary_size: int, at_limit: Bool[Array, "B"]) -> Bool[Array, "B V"]:
    """True where a row may go on with a token: never PAD or BOS; at its limit nothing but EOS.

    What is not allowed is only not chosen: probabilities are not renormalised, so that a forced EOS costs what the
    model says that it costs.
    """
    token = jnp.arange(vocabulary_size)
    return jnp.where(at_limit[:, None], token == EOS, (token != PAD) & (token != BOS))


def length_penalty(length: Int[Array, "*shape"], alpha: float) -> Float[Array, "*shape"]:
    """((5 + |y|) / 6) ** alpha, by which a log-probability is divided: Wu et al. 2016, equation 14. |y| counts EOS.

    >>> length_penalty(jnp.array([1, 7]), 1.0).tolist()
    [1.0, 2.0]
    """
    return ((5 + length).astype(jnp.float32) / 6) ** alpha
