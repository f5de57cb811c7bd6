"""Beam search as Hugging Face's `generate` does it (transformers 5): its length rule, stopping rule and limit."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.decoding.hypotheses import allowed_tokens
from attention_research.decoding.search import Search
from attention_research.registry import NonNegative, Positive
from attention_research.tokens import EOS


class HuggingFaceBeamSearch(Search):
    """The settings are `generate`'s: a hypothesis scores log p / |y| ** `length_penalty`, |y| counting EOS.

    `early_stopping` says when a row is over. ``True``: as soon as it has `beam_size` hypotheses. Otherwise it must also
    have no live prefix whose score could beat the worst of them, where the score is guessed from the prefix's present
    length (``False``), or from the limit when `length_penalty` is positive (``"never"``). Only the last is a bound;
    with ``False`` and a positive penalty the search stops before it is sure.

    At a row's limit the best extensions are hypotheses as they stand, without EOS; with `forced_eos` (there:
    ``forced_eos_token_id``, Marian's default) every prefix takes EOS instead, at no cost. PAD and BOS are never taken
    (there: ``suppress_tokens``). The start token is BOS (there: ``decoder_start_token_id``) and is not counted.
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
        """The model's, for any token but PAD and BOS; a forced EOS costs nothing."""
        if not self.forced_eos:
            at_limit = jnp.zeros_like(at_limit)
        allowed = allowed_tokens(log_probabilities.shape[-1], at_limit)[:, None]
        free = jnp.where(at_limit[:, None, None], 0.0, log_probabilities)
        return jnp.where(allowed, free, -jnp.inf)

    def ends(self, tokens: Int[Array, "B C"], at_limit: Bool[Array, "B"]) -> Bool[Array, "B C"]:
        """Extensions by EOS, and all of them at the limit."""
        return (tokens == EOS) | at_limit[:, None]

    def score(self, log_probabilities: Float[Array, "*B"], lengths: Int[Array, "*#B"]) -> Float[Array, "*B"]:
        """log p / |y| ** length_penalty."""
        return log_probabilities / jnp.maximum(lengths, 1).astype(jnp.float32) ** self.length_penalty

    def is_over(
        self, live: Float[Array, "B K"], scores: Float[Array, "B K"], length: Int[Array, ""], limits: Int[Array, "B"]
    ) -> Bool[Array, "B"]:
        """Full where that is enough; else full of hypotheses that the best live prefix is not thought to beat."""
        worst = scores[:, -1]
        if self.early_stopping is True:
            return worst > -jnp.inf
        reached = limits if self.early_stopping == "never" and self.length_penalty > 0.0 else length
        return self.score(live[:, 0], reached) <= worst
