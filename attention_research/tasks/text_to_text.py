"""The text-to-text task of T5: cross-entropy with a z-loss (Raffel et al. 2020, arXiv 1910.10683).

    loss = sum over non-padding tokens of -log p(y) + z_loss (log Z)^2,   p = exp(logits) / Z

The z-loss of Mesh TensorFlow (Shazeer et al. 2018) keeps log Z near 0. A softmax does not determine the constant that
is added to all logits, and a large constant costs precision in bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.models.protocol import ScoresTokens
from attention_research.parallel.replica_settings import value
from attention_research.signatures import NonNegativeFloat, Rate
from attention_research.tasks.translation import Translation


class TextToText(Translation):
    """`Translation` with a z-loss of weight `z_loss` and, as in T5, without label smoothing by default.

    The z-loss is used only in training (with a key), as in the released code. It is reported as "z_loss". It is not
    part of "negative_log_likelihood", whose mean over tokens is the log-perplexity of Narang et al. 2021. Vocabularies
    without a single softmax (`mixture_of_softmaxes`, `adaptive_softmax`) have no normalizer, so there is no z-loss. The
    released adaptive softmax applies a z-loss to each of its softmaxes.
    """

    def __init__(self, *, z_loss: NonNegativeFloat = 1e-4, label_smoothing: Rate = 0.0):
        super().__init__(label_smoothing=label_smoothing)
        self.z_loss = z_loss

    def loss(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed loss, other sums to log). Without a key, there is no dropout and no z-loss."""
        total, sums, values, _ = self._with_values(model, batch, key)
        if key is None or "log_normalizer" not in values:
            return total, sums
        z_loss = value(self.z_loss) * jnp.sum(jnp.square(values["log_normalizer"]), where=values["mask"])
        return total + z_loss, {**sums, "z_loss": jax.lax.stop_gradient(z_loss)}
