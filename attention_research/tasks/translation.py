"""Translation: cross-entropy with label smoothing (Szegedy et al. 2016) over non-padding target tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.models.protocol import ScoresTokens
from attention_research.parallel.replica_settings import value
from attention_research.signatures import Rate
from attention_research.tasks.auxiliary import with_auxiliary


class Translation:
    """loss = sum over non-padding tokens of -(1 - e) log p(y) - e mean_v log p(v), where e is `label_smoothing`
    (0.1 in the paper).

    Auxiliary losses of layers are added (`tasks.auxiliary`). Their sum, each auxiliary loss by name, figures of layers,
    and the unsmoothed negative log-likelihood are reported too. Perplexities are exp of the negative log-likelihood,
    not of the loss.
    """

    def __init__(self, *, label_smoothing: Rate = 0.1):
        self.label_smoothing = label_smoothing

    def count(self, batch: Mapping[str, Array]) -> Float[Array, ""]:
        """The number of non-padding target tokens, at least 1."""
        return jnp.maximum(jnp.sum(batch["target"] != 0), 1).astype(jnp.float32)

    def loss(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """(summed loss, other sums to log). Without a key, dropout is off."""
        total, sums, *_ = self._with_values(model, batch, key)
        return total, sums

    def _with_values(
        self, model: ScoresTokens, batch: Mapping[str, Array], key: Key[Array, ""] | None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]], Mapping[str, Float[Array, "B T"]], dict[str, Any]]:
        """The two results of `loss`, the values of the model per token, and its aux."""
        values, aux = model.log_likelihood(batch, key=key)
        nll = -jnp.sum(values["log_likelihood"], where=values["mask"])
        smooth = -jnp.sum(values["smooth_log_likelihood"], where=values["mask"])
        smoothing = value(self.label_smoothing)
        total = (1.0 - smoothing) * nll + smoothing * smooth
        total, sums = with_auxiliary(total, {"negative_log_likelihood": nll}, aux, values["mask"])
        return total, jax.lax.stop_gradient(sums), values, aux
