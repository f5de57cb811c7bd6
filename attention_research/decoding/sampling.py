"""Sampling with a temperature, top-k (Fan et al. 2018) and nucleus sampling (Holtzman et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt8

from attention_research.decoding.left_to_right import LeftToRight
from attention_research.signatures import NonNegative, Positive, PositiveFloat, Seed
from attention_research.tokens import PAD


class Sampling(LeftToRight):
    """Draws `num_samples` hypotheses per row, token by token from `truncated`; they are not ranked.

    The score is the log-probability under the model, not under the truncated distribution. The samples of a row depend
    only on `seed` and on its own source, not on the other rows or the padding: equal sentences, or pictures, get equal
    samples.

    `temperature` divides the logits. `top_k` keeps only the k most probable tokens, and `top_p` only the most probable
    tokens whose probabilities add up to p.
    """

    def __init__(
        self,
        *,
        temperature: PositiveFloat = 1.0,
        top_k: Positive | None = None,
        top_p: PositiveFloat | None = None,
        num_samples: Positive = 1,
        seed: Seed = 0,
        extra_length: NonNegative = 50,
    ):
        super().__init__(extra_length=extra_length, num_samples=num_samples)
        self.temperature, self.top_k, self.top_p, self.seed = temperature, top_k, top_p, seed

    def start(self, source: Mapping[str, Array]) -> Key[Array, "R"]:
        """A key for each row and sample."""

        def of_row(tokens: Int[Array, "S"]) -> Key[Array, "K"]:
            fold = lambda key, token: (jnp.where(token == PAD, key, jax.random.key_data(_folded(key, token))), None)
            data, _ = jax.lax.scan(fold, jax.random.key_data(jax.random.key(self.seed)), tokens)
            return jax.random.split(jax.random.wrap_key_data(data), self.num_samples)

        if "image" in source:
            return jax.vmap(of_row)(_checksum(source["image"])[:, None]).reshape(-1)
        return jax.vmap(of_row)(source["tokens"]).reshape(-1)

    def choose(
        self, log_probabilities: Float[Array, "R V"], given: Key[Array, "R"], step: Int[Array, ""]
    ) -> Int[Array, "R"]:
        """A random token for each row."""
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(given, step)
        logits = truncated(log_probabilities, self.temperature, self.top_k, self.top_p)
        return jax.vmap(jax.random.categorical)(keys, logits)


def _checksum(image: UInt8[Array, "B Y X C"]) -> Int[Array, "B"]:
    """A positive number for each picture; different pictures rarely have the same number."""
    flat = image.reshape(image.shape[0], -1).astype(jnp.uint32)
    places = jnp.arange(1, flat.shape[1] + 1, dtype=jnp.uint32) * jnp.uint32(2654435761)
    mixed = (flat + places) * jnp.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> 13)) * jnp.uint32(0xC2B2AE35)  # as MurmurHash3 does: sums of pixels are no pattern
    return (jnp.sum(mixed ^ (mixed >> 16), axis=1, dtype=jnp.uint32) >> 1).astype(jnp.int32) | 1


def _folded(data: Array, token: Array) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.wrap_key_data(data), token)


def truncated(
    log_probabilities: Float[Array, "*B V"], temperature: float, top_k: int | None, top_p: float | None
) -> Float[Array, "*B V"]:
    """The logits to sample from: divided by `temperature`, then -inf outside the `top_k` largest and the nucleus.

    The nucleus is the smallest set of most probable tokens (after the first two steps) whose probability reaches
    `top_p`. Tokens with the same probability as the last kept token are kept, too.

    >>> log_p = jnp.log(jnp.array([0.5, 0.3, 0.2]))
    >>> print(jnp.exp(truncated(log_p, 1.0, None, 0.7)))  # the nucleus: 0.5 + 0.3 reach 0.7
    [0.5 0.3 0. ]
    """
    logits = log_probabilities / temperature
    size = logits.shape[-1]
    if top_k is not None and top_k < size:
        least = jax.lax.top_k(logits, top_k)[0][..., -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if top_p is not None and top_p < 1.0:
        ordered = jnp.sort(jax.nn.softmax(logits, axis=-1), axis=-1, descending=True)
        before = jnp.cumsum(ordered, axis=-1) - ordered
        least = jnp.min(ordered, axis=-1, keepdims=True, where=before < top_p, initial=1.0)
        logits = jnp.where(jax.nn.softmax(logits, axis=-1) < least, -jnp.inf, logits)
    return logits
