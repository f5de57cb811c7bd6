"""The result of decoding, and the conventions of all searches: length limits, allowed tokens, length penalty."""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.tokens import BOS, EOS, PAD


class Decoded(NamedTuple):
    """The hypotheses of each source row, best first.

    ``lengths`` counts the tokens with EOS; only a search that truncates at its limit ends without EOS. ``tokens`` is 0
    after these. If a row has fewer than ``K`` hypotheses, the last ones are empty: length 0, tokens 0, score and
    log-probability -inf. ``log_probabilities`` are the sums of the model's log-probabilities of the tokens, with EOS.
    ``scores`` are the values by which the search ranks.
    """

    tokens: Int[Array, "B K T"]
    scores: Float[Array, "B K"]
    log_probabilities: Float[Array, "B K"]
    lengths: Int[Array, "B K"]


def number_of_rows(source: Mapping[str, Array]) -> int:
    """The number of sources: texts ("tokens" [B S]) or pictures ("image" [B Y X C])."""
    return source["image" if "image" in source else "tokens"].shape[0]


def length_limits(source: Mapping[str, Array], extra_length: int, max_length: int) -> Int[Array, "B"]:
    """The largest number of tokens of each row, with EOS: source length + `extra_length`, at most `max_length`.

    The source length is the number of tokens that are not padding (0); a final EOS counts, as in the target. A row
    without tokens (padding of a batch) may have only one token, so that it takes no time. Vaswani et al. 2017, section
    6.1: input length + 50. For a picture the limit is `max_length`; an all-black picture is padding of a batch.
    """
    if "image" in source:
        real = jnp.any(source["image"] != 0, axis=(1, 2, 3))
        return jnp.where(real, max_length, 1).astype(jnp.int32)
    lengths = jnp.sum(source["tokens"] != PAD, axis=1, dtype=jnp.int32)
    return jnp.where(lengths > 0, jnp.clip(lengths + extra_length, 1, max_length), 1)


def allowed_tokens(vocabulary_size: int, at_limit: Bool[Array, "B"]) -> Bool[Array, "B V"]:
    """Whether a row may continue with a token: never with PAD or BOS; at its limit only with EOS.

    Probabilities are not renormalized over the allowed tokens, so that a forced EOS has the model's log-probability.
    """
    token = jnp.arange(vocabulary_size)
    return jnp.where(at_limit[:, None], token == EOS, (token != PAD) & (token != BOS))


def length_penalty(length: Int[Array, "*shape"], alpha: float) -> Float[Array, "*shape"]:
    """((5 + |y|) / 6) ** alpha, the divisor of a log-probability: Wu et al. 2016, equation 14. |y| includes EOS.

    >>> length_penalty(jnp.array([1, 7]), 1.0).tolist()
    [1.0, 2.0]
    """
    return ((5 + length).astype(jnp.float32) / 6) ** alpha
