"""Beam search with the length, stopping and limit rules of Hugging Face's `generate` (transformers 5)."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.decoding.hypotheses import allowed_tokens
from attention_research.decoding.search import Search
from attention_research.signatures import NonNegative, Positive
from attention_research.tokens import EOS


class HuggingFaceBeamSearch(Search):
    """The settings are those of `generate`. The score of a hypothesis is log p / |y| ** `length_penalty`; |y| includes
    EOS.

    `early_stopping` says when a row stops. ``True``: as soon as it has `beam_size` hypotheses. Otherwise, also no live
    prefix may be able to beat the worst of them. The score of a prefix is estimated with its current length
    (``False``), or with the limit if `length_penalty` is positive (``"never"``). Only the latter is an upper bound:
    with ``False`` and a positive penalty, the search may stop too early.

    At a row's limit the best extensions become hypotheses without EOS. With `forced_eos` (in Hugging Face:
    ``forced_eos_token_id``, the default of Marian) every prefix takes EOS instead, at no cost. PAD and BOS are never
    taken (``suppress_tokens``). The start token is BOS (``decoder_start_token_id``) and is not counted.

    `beam_size` is the number of prefixes that are kept at each step.
    """

    def __init__(
        self,
        *,
        beam_size: Positive = 4,
        length_penalty: float = 1.0,
        early_stopping: Literal[False, True, "never"] = False,
        forced_eos: bool = False,
        extra_length: NonNegative = 50,
    ):
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.early_stopping = early_stopping
        self.forced_eos = forced_eos
        self.extra_length = extra_length

    def prices(self, log_probabilities: Float[Array, "B K V"], at_limit: Bool[Array, "B"]) -> Float[Array, "B K V"]:
        """The model's log-probabilities, -inf for PAD and BOS; 0 for a forced EOS."""
        if not self.forced_eos:
            at_limit = jnp.zeros_like(at_limit)
        allowed = allowed_tokens(log_probabilities.shape[-1], at_limit)[:, None]
        free = jnp.where(at_limit[:, None, None], 0.0, log_probabilities)
        return jnp.where(allowed, free, -jnp.inf)

    def ends(self, tokens: Int[Array, "B C"], at_limit: Bool[Array, "B"]) -> Bool[Array, "B C"]:
        """Whether an extension ends: by EOS, or at the limit."""
        return (tokens == EOS) | at_limit[:, None]

    def score(self, log_probabilities: Float[Array, "*B"], lengths: Int[Array, "*#B"]) -> Float[Array, "*B"]:
        """log p / |y| ** length_penalty."""
        return log_probabilities / jnp.maximum(lengths, 1).astype(jnp.float32) ** self.length_penalty

    def is_over(
        self, live: Float[Array, "B K"], scores: Float[Array, "B K"], length: Int[Array, "..."], limits: Int[Array, "B"]
    ) -> Bool[Array, "B"]:
        """Whether a row has `beam_size` hypotheses that, by the rule of `early_stopping`, no live prefix can beat."""
        worst = scores[:, -1]
        if self.early_stopping is True:
            return worst > -jnp.inf
        reached = limits if self.early_stopping == "never" and self.length_penalty > 0.0 else length
        return self.score(live[:, 0], reached) <= worst
