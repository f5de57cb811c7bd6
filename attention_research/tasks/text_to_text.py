"""Text to text, as T5 trains it: cross-entropy with a z-loss (Raffel et al. 2020, arXiv 1910.10683).

    loss = sum over non-padding tokens of -log p(y) + z_loss (log Z)^2,   p = exp(logits) / Z

The second term, of Mesh TensorFlow (Shazeer et al. 2018), holds the logits near what they are the logarithm of: a
softmax leaves free a constant that is added to all of them, and in bfloat16 a large one costs precision.
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
    """`Translation` with a z-loss of weight `z_loss` and, as in T5, without label smoothing.

    The z-loss is there in training alone: without a key (validation, evaluation) the loss is the task's own, as in the
    released code. It is reported as "z_loss"; "negative_log_likelihood", whose mean over tokens is the log-perplexity
    that Narang et al. 2021 print, has no part of it. A vocabulary without one softmax (`mixture_of_softmaxes`,
    `adaptive_softmax`) gives log p as it is, so that Z is 1 and the z-loss 0; the released adaptive softmax puts one on
    each of its softmaxes.
    """

    def __init__(self, *, z_loss: NonNegativeFloat = 1e-4, label_smoothing: Rate = 0.0):
        super().__init__(label_smoothing=label_smoothing)
        self.z_loss = z_loss

    def loss(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed loss, what is reported beside it, summed); no key means neither dropout nor z-loss."""
        total, sums, values, _ = self._with_values(model, batch, key)
        if key is None or "log_normalizer" not in values:
            return total, sums
        z_loss = value(self.z_loss) * jnp.sum(jnp.square(values["log_normalizer"]), where=values["mask"])
        return total + z_loss, {**sums, "z_loss": jax.lax.stop_gradient(z_loss)}
