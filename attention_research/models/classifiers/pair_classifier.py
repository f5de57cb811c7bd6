"""Whether two sequences belong together, by two towers that are one encoder: the Long Range Arena's matching model.

The readout sees [a, b, a * b, a - b] of the two pooled vectors (Mou et al. 2016), which the released code calls "NLI".
Nothing of one sequence attends to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.models.classifiers.encoder_classifier import EncoderClassifier


class PairClassifier(EncoderClassifier):
    """Has `log_probabilities` of a batch's "source" and "other" [B S]; what it gives beside them is the source's."""

    pooled = 4

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class, what the first tower gives beside its vector); no key means no dropout."""
        keys = (None, None) if key is None else jax.random.split(key)
        a, aux = self.vector(batch["source"], batch, keys[0])
        b, _ = self.vector(batch["other"], batch, keys[1])
        return self.read_out(jnp.concatenate([a, b, a * b, a - b], axis=1)), aux
