"""Translation with the coverage loss of See, Liu & Manning 2017 (arXiv 1704.04368), equation 13."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.models.protocol import ScoresTokens
from attention_research.signatures import NonNegativeFloat


class Coverage:
    """loss = sum over non-padding tokens of -log p(y_t) + weight * sum_i min(a_i^t, c_i^t); weight 1 in the paper.

    The model must return "coverage_loss" [B T] in aux["decoder"]. The paper adds the coverage loss only in the last
    3,000 updates; this task adds it from the first update on.

    `weight` multiplies the coverage loss.
    """

    def __init__(self, *, weight: NonNegativeFloat = 1.0):
        self.weight = weight

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of non-padding target tokens, at least 1."""
        return jnp.maximum(jnp.sum(batch["target"] != 0), 1).astype(jnp.float32)

    def loss(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed loss, summed {"negative_log_likelihood", "coverage_loss"}). Without a key, dropout is off."""
        values, aux = model.log_likelihood(batch, key=key)
        nll = -jnp.sum(values["log_likelihood"], where=values["mask"])
        covered = jnp.sum(aux["decoder"]["coverage_loss"], where=values["mask"])
        sums = {"negative_log_likelihood": nll, "coverage_loss": covered}
        return nll + self.weight * covered, jax.lax.stop_gradient(sums)
