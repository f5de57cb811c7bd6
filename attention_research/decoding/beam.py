"""Beam search, length penalty of Wu et al. 2016 (arXiv 1609.08144, equation 14), as Vaswani et al. 2017 use it."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.decoding.hypotheses import allowed_tokens, length_penalty
from attention_research.decoding.search import Search
from attention_research.registry import NonNegative, NonNegativeFloat, Positive


class BeamSearch(Search):
    """A hypothesis scores log p / ((5 + |y|) / 6) ** alpha, |y| counting EOS.

    At a row's limit (`length_limits`) every prefix left takes EOS, at the price that the model gives it. PAD and BOS
    are never taken. With `beam_size` 1 and `alpha` 0 this is `Greedy`.

    A row stops when no live prefix can beat its finished hypotheses: log-probabilities only fall, and with alpha >= 0
    the penalty only grows, so a live prefix ends at most at log p / penalty(limit), an exact bound. `exact` names what
    it protects. ``"best"``: the first hypothesis is the one that a search to the limit would give; those after it are
    the best met so far, perhaps fewer than `beam_size`. ``"all"``: that holds for every hypothesis, in more steps.
    """

    def __init__(
        self,
        *,
        beam_size: Positive = 4,
        alpha: NonNegativeFloat = 0.6,
        extra_length: NonNegative = 50,
        exact: Literal["best", "all"] = "best",
    ):
        self.beam_size = beam_size
        self.alpha = alpha
        self.extra_length = extra_length
        self.exact = exact

    def prices(self, log_probabilities: Float[Array, "B K V"], at_limit: Bool[Array, "B"]) -> Float[Array, "B K V"]:
        """The model's, for allowed tokens: at the limit EOS alone."""
        allowed = allowed_tokens(log_probabilities.shape[-1], at_limit)[:, None]
        return jnp.where(allowed, log_probabilities, -jnp.inf)

    def score(self, log_probabilities: Float[Array, "*B"], lengths: Int[Array, "*#B"]) -> Float[Array, "*B"]:
        """log p / ((5 + |y|) / 6) ** alpha."""
        return log_probabilities / length_penalty(lengths, self.alpha)

    def is_over(
        self, live: Float[Array, "B K"], scores: Float[Array, "B K"], length: Int[Array, ""], limits: Int[Array, "B"]
    ) -> Bool[Array, "B"]:
        """The best live prefix's bound is not above the hypothesis that `exact` protects."""
        del length
        bound = live[:, 0] / length_penalty(limits, self.alpha)
        return bound <= scores[:, 0 if self.exact == "best" else -1]
