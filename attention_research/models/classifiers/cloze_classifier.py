"""A classifier with the parameters of a pre-trained masked language model, which scores classes as tokens.

Devlin et al. 2019 (arXiv 1810.04805) add a new linear layer on top of [CLS]. Here, the classes are reserved tokens of
the tied vocabulary that do not occur in texts: the ids just before the last one, which is the mask token of
`data.objectives.masked_tokens`. The head of the language model scores the mean of the encoder states:
log p(class c | text) = log softmax over the classes of logits(mean_i h_i)[V - 2 - c]. The model has exactly the
parameters of the pre-trained one, so fine-tuning can load all of them (`training.initial`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from attention_research.errors import ConfigError
from attention_research.layers.pooling.average import average, normalized
from attention_research.models.encoder_only import TransformerEncoder
from attention_research.signatures import Positive
from attention_research.tokens import PAD


class ClozeClassifier(TransformerEncoder):
    """A `TransformerEncoder` that also has `log_probabilities` of the "source" of a batch.

    Pre-training must reserve the class tokens by `data.sentinels` of num_classes + 1. Raises ConfigError if the
    vocabulary is too small for the classes.
    """

    def __init__(self, *, vocabulary_size: Positive, num_classes: Positive = 2, **inherited: Any):
        if num_classes > vocabulary_size - 2:
            raise ConfigError(
                f"model.num_classes: a vocabulary of {vocabulary_size} tokens is too small for {num_classes} classes"
            )
        super().__init__(vocabulary_size=vocabulary_size, **inherited)
        self.classes = tuple(vocabulary_size - 2 - number for number in range(num_classes))

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, {"pooling": {"weights": the weight of each position}, "encoder"})."""
        tokens = batch["source"]
        memory = self.encode({"tokens": tokens}, key=key)
        share = normalized(jnp.ones(tokens.shape, jnp.float32), tokens != PAD)
        scores = self.vocabulary.log_probabilities(average(memory["hidden"], share))
        of_classes = scores[:, jnp.asarray(self.classes, jnp.int32)].astype(jnp.float32)
        return jax.nn.log_softmax(of_classes), {"pooling": {"weights": share}, "encoder": memory["aux"]}
