"""Captioning, Xu et al. 2015 (arXiv 1502.03044), sections 4.1 and 4.2.1: words, places looked at, and choices.

    sum over a text's words of -log p(y_t)  +  lambda sum_i (1 - sum_t alpha_ti)^2

The second term, the doubly stochastic one, asks that every place be looked at once in a text; it is there for a model
whose decoder has an alignment. For hard attention, whose choices have log-probabilities, is added

    lambda_r (cost - b) log p(s_t)  -  lambda_e H[alpha_t]

at every word: REINFORCE with a moving average b of the cost, and the entropy (`kernels.reinforce_surrogate`). As in the
released code the cost is the mean over a text's words, lambda_r is 1/10 and lambda_e 0.002. That part is a surrogate:
it has the gradient, its value is taken off again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.kernels.selection import reinforce_surrogate
from attention_research.models.protocol import ScoresTokens
from attention_research.signatures import NonNegativeFloat, Rate
from attention_research.tasks.auxiliary import running_updates
from attention_research.tasks.translation import Translation


class Captioning(Translation):
    """`doubly_stochastic` is lambda, 1 in the released code; `reinforce` lambda_r; `entropy` lambda_e."""

    def __init__(
        self,
        *,
        label_smoothing: Rate = 0.0,
        doubly_stochastic: NonNegativeFloat = 0.0,
        reinforce: NonNegativeFloat = 0.1,
        entropy: NonNegativeFloat = 0.002,
    ):
        super().__init__(label_smoothing=label_smoothing)
        self.doubly_stochastic, self.reinforce, self.entropy = doubly_stochastic, reinforce, entropy

    def loss(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed loss, the negative log-likelihood, what `looking` adds to it, running statistics in training)."""
        total, sums, values, aux = self._with_values(model, batch, key)
        alignment = aux["decoder"].get("alignment")
        if alignment is not None and self.doubly_stochastic:
            looking = self.doubly_stochastic * doubly_stochastic(alignment, values["mask"])
            total, sums = total + looking, {**sums, "doubly_stochastic": looking}
        if aux.get("judged"):
            surrogate = self._choices(aux, values["mask"])
            total += surrogate - jax.lax.stop_gradient(surrogate)
        return total, {**sums, **running_updates(aux)}

    def _choices(self, aux: Mapping[str, Any], mask: Array) -> Float[Array, ""]:
        """The surrogate of hard attention's choices, summed over words."""
        decoder, judged = aux["decoder"], aux["judged"]
        learned = reinforce_surrogate(decoder["log_probability"], judged["cost"], judged["baseline"], mask)
        return self.reinforce * jnp.sum(learned) - self.entropy * jnp.sum(decoder["entropy"], where=mask)


def doubly_stochastic(alignment: Float[Array, "B T S"], mask: Array) -> Float[Array, ""]:
    """sum over texts and places of (1 - sum_t alpha_ti)^2, t over non-padding words [B T]; 0 for a row without words.

    >>> float(doubly_stochastic(jnp.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]]), jnp.array([[True, True, False]])))
    0.0
    """
    seen = jnp.sum(jnp.where(mask[..., None], alignment, jnp.zeros((), alignment.dtype)), axis=1)
    return jnp.sum(jnp.square(1.0 - seen), where=jnp.any(mask, axis=1)[:, None])
