"""Beam search with the length penalty of Wu et al. 2016 (arXiv 1609.08144, equation 14), as in Vaswani et al. 2017."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Array, Bool, Float, Int

from attention_research.decoding.hypotheses import length_penalty
from attention_research.decoding.search import Search
from attention_research.signatures import NonNegative, NonNegativeFloat, Positive


class BeamSearch(Search):
    """The score of a hypothesis is log p / ((5 + |y|) / 6) ** alpha, where |y| includes EOS.

    At a row's limit (`length_limits`) every live prefix takes EOS, with the model's log-probability. PAD and BOS are
    never taken. With `beam_size` 1 and `alpha` 0 this is `Greedy`.

    A row stops when no live prefix can beat its finished hypotheses. Log-probabilities only decrease, and with alpha >=
    0 the penalty only increases, so log p / penalty(limit) is an upper bound on the final score of a live prefix.
    `exact` says whether only the best hypothesis must be final, or all of them. ``"best"``: the first hypothesis is
    that of a search to the limit; the others are the best found so far, and may be fewer than `beam_size`. ``"all"``:
    all hypotheses are those of a search to the limit, which takes more steps.

    `beam_size` is the number of prefixes that are kept at each step. `alpha` is the exponent of the length penalty.
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

    def score(self, log_probabilities: Float[Array, "*B"], lengths: Int[Array, "*#B"]) -> Float[Array, "*B"]:
        """log p / ((5 + |y|) / 6) ** alpha."""
        return log_probabilities / length_penalty(lengths, self.alpha)

    def is_over(
        self, live: Float[Array, "B K"], scores: Float[Array, "B K"], length: Int[Array, "..."], limits: Int[Array, "B"]
    ) -> Bool[Array, "B"]:
        """Whether the bound of the best live prefix is not above the score that `exact` selects."""
        del length
        bound = live[:, 0] / length_penalty(limits, self.alpha)
        return bound <= scores[:, 0 if self.exact == "best" else -1]
