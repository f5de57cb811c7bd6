"""Greedy decoding: takes the most probable token at each position."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.decoding.left_to_right import LeftToRight
from attention_research.signatures import NonNegative


class Greedy(LeftToRight):
    """Takes the most probable token until EOS. A row at its limit (`length_limits`) takes EOS, with the model's
    log-probability.

    There is one hypothesis per row (K = 1). Its score is its log-probability, without a length penalty. The result of a
    row does not depend on the other rows or on the padding.

    >>> log_p = jnp.log(jnp.array([[0.1, 0.6, 0.3]]))
    >>> Greedy().choose(log_p, None, jnp.array(0)).tolist()
    [1]
    """

    def __init__(self, *, extra_length: NonNegative = 50):
        super().__init__(extra_length=extra_length)

    def choose(self, log_probabilities: Float[Array, "R V"], given: Any, step: Int[Array, ""]) -> Int[Array, "R"]:
        """The most probable token; the first one in a tie."""
        del given, step
        return jnp.argmax(log_probabilities, axis=-1)
