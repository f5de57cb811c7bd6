"""Beam search of the recurrent translators: Sutskever et al. 2014 (arXiv 1409.3215), section 3.2; Bahdanau et al. 2015.

A hypothesis that takes EOS moves from the beam to the complete hypotheses. As in the released code of Bahdanau et al.,
its place in the beam is not filled again: the beam shrinks, and a row stops when its beam is empty. The papers do not
say this. Sutskever et al. rank by log p; `normalized` ranks by log p / |y| with EOS (an option of that code).
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attention_research.decoding.search import Search
from attention_research.signatures import NonNegative, Positive


class ShrinkingBeamSearch(Search):
    """At a row's limit (`length_limits`) every live prefix takes EOS, with the model's log-probability. PAD and BOS are
    never taken. A row has exactly `beam_size` hypotheses, if that many exist within its limit.

    `beam_size` is the number of prefixes and hypotheses that are kept at each step.
    """

    def __init__(self, *, beam_size: Positive = 12, normalized: bool = False, extra_length: NonNegative = 50):
        self.beam_size, self.normalized, self.extra_length = beam_size, normalized, extra_length

    def kept(self, values: Float[Array, "B C"], finished: Int[Array, "B"]) -> Float[Array, "B C"]:
        """As many extensions as the beam has free places."""
        place = jnp.arange(values.shape[1])
        return jnp.where(place < (self.beam_size - finished)[:, None], values, -jnp.inf)

    def score(self, log_probabilities: Float[Array, "*B"], lengths: Int[Array, "*#B"]) -> Float[Array, "*B"]:
        """log p, or log p / |y|."""
        if not self.normalized:
            return log_probabilities
        return log_probabilities / jnp.maximum(lengths, 1).astype(jnp.float32)

    def is_over(
        self, live: Float[Array, "B K"], scores: Float[Array, "B K"], length: Int[Array, "..."], limits: Int[Array, "B"]
    ) -> Bool[Array, "B"]:
        """Whether the beam is empty."""
        del scores, length, limits
        return live[:, 0] == -jnp.inf
