"""Lets decoding continue a prompt with a language model that has no source: the source is used as the prompt.

Decoding begins every text with BOS. Within a row's prompt, the next prompt token has probability 1, so that every
search takes it and the score counts only the tokens of the model. The length penalty of a beam search does not count
the prompt either. A batch may have prompts of different lengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from attention_research.decoding.hypotheses import number_of_rows
from attention_research.models.protocol import Continues
from attention_research.tokens import EOS, PAD


class Continued:
    """A language model with the interface of `Generates`; the source is the prompt."""

    def __init__(self, model: Continues):
        self.model = model

    def encode(self, source: Mapping[str, Any], *, key: Key[Array, ""] | None = None) -> Mapping[str, Any]:
        """The prompts unchanged: tokens, end of sentence, padding. Length limits count them in this form."""
        del key
        return source

    def prompt_lengths(self, source: Mapping[str, Any]) -> Int[Array, "B"]:
        """The number of tokens of each prompt, without the end of sentence."""
        tokens = source["tokens"]
        return jnp.sum((tokens != PAD) & (tokens != EOS), axis=1, dtype=jnp.int32)

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token, for texts of up to `length` tokens, including the prompts."""
        tokens = memory["tokens"]
        prompt = jnp.where(tokens == EOS, jnp.asarray(PAD, tokens.dtype), tokens)
        return {"model": self.model.start(number_of_rows(memory), length), "prompt": prompt, "index": jnp.int32(0)}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected). Within the prompt, log p is 0 for its token and -inf for all
        others; after the prompt, it is that of the model."""
        prompt, index = cache["prompt"], cache["index"]
        after, log_p, collected = self.model.step(cache["model"], tokens)
        given = jnp.take(prompt, index, axis=1, mode="fill", fill_value=PAD)[:, None]
        is_given = given == jnp.arange(log_p.shape[-1], dtype=given.dtype)
        forced = jnp.where(is_given, jnp.zeros((), log_p.dtype), jnp.full((), -jnp.inf, log_p.dtype))
        log_p = jnp.where(given == PAD, log_p, forced)
        return {"model": after, "prompt": prompt, "index": index + 1}, log_p, collected
