"""The captioning loss of Xu et al. 2015 (arXiv 1502.03044), sections 4.1 and 4.2.1.

    sum over the words of a text of -log p(y_t)  +  lambda sum_i (1 - sum_t alpha_ti)^2

The second term is the doubly stochastic regularization. It encourages a total attention of 1 to every location, and is
used if the decoder has an alignment. For hard attention, which samples its locations, the loss of every word also has

    lambda_r (cost - b) log p(s_t)  -  lambda_e H[alpha_t]

This is REINFORCE with a moving average b of the cost, and an entropy term (`kernels.reinforce_surrogate`). As in the
released code, the cost is the mean over the words of a text, lambda_r is 1/10 and lambda_e is 0.002. This part is a
surrogate, which contributes to the gradient but not to the value of the loss.
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
    """The loss of captions. `doubly_stochastic` is lambda (1 in the released code), `reinforce` is lambda_r, and
    `entropy` is lambda_e."""

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
        """(summed loss, sums to log).

        The sums have the negative log-likelihood, the doubly stochastic term and, in training, running statistics.
        """
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
        """The surrogate for the sampled choices of hard attention, summed over words."""
        decoder, judged = aux["decoder"], aux["judged"]
        learned = reinforce_surrogate(decoder["log_probability"], judged["cost"], judged["baseline"], mask)
        return self.reinforce * jnp.sum(learned) - self.entropy * jnp.sum(decoder["entropy"], where=mask)


def doubly_stochastic(alignment: Float[Array, "B T S"], mask: Array) -> Float[Array, ""]:
    """The sum over texts and locations of (1 - sum_t alpha_ti)^2, where t runs over non-padding words [B T].

    A row without words contributes 0.

    >>> float(doubly_stochastic(jnp.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]]), jnp.array([[True, True, False]])))
    0.0
    """
    seen = jnp.sum(jnp.where(mask[..., None], alignment, jnp.zeros((), alignment.dtype)), axis=1)
    return jnp.sum(jnp.square(1.0 - seen), where=jnp.any(mask, axis=1)[:, None])
