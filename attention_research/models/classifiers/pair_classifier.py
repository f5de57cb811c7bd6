"""A classifier of sequence pairs with one encoder for both sequences: the matching model of the Long Range Arena.

The readout receives [a, b, a * b, a - b] of the two pooled vectors (Mou et al. 2016), which the released code calls
"NLI". There is no attention between the two sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.models.classifiers.encoder_classifier import EncoderClassifier


class PairClassifier(EncoderClassifier):
    """A model with `log_probabilities` of the "source" and "other" [B S] of a batch.

    The aux is that of the source, with that of the other sequence under "other".
    """

    pooled = 4

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class, aux). Without a key, dropout is off."""
        keys = (None, None) if key is None else jax.random.split(key)
        a, aux = self.vector(batch["source"], batch, keys[0])
        read = {name: x for name, x in batch.items() if name != "document_frequency"}  # that of the source
        b, other = self.vector(batch["other"], {**read, "source": batch["other"]}, keys[1])
        return self.read_out(jnp.concatenate([a, b, a * b, a - b], axis=1)), {**aux, "other": other}
