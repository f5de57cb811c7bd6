"""Greedy decoding: at each position the most probable token."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.decoding.left_to_right import LeftToRight
from attention_research.registry import NonNegative


class Greedy(LeftToRight):
    """Takes the most probable token until EOS; a row at its limit (`length_limits`) takes EOS, at its true price.

    One hypothesis a row (K = 1), and its score is its log-probability: nothing is ranked, so there is no penalty.
    A row's result does not depend on the other rows nor on the padding.
    """

    def __init__(self, *, extra_length: NonNegative = 50):
        super().__init__(extra_length=extra_length)

    def choose(self, log_probabilities: Float[Array, "R V"], given: Any, step: Int[Array, ""]) -> Int[Array, "R"]:
        """The most probable; of equals the first."""
        del given, step
        return jnp.argmax(log_probabilities, axis=-1)
