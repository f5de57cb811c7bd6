"""A pre-trained masked language model's encoder as a classifier, without one parameter more: log p of class tokens.

Devlin et al. 2019 (arXiv 1810.04805) put a new linear layer above [CLS]. Here the classes are tokens of the tied
vocabulary that no text has, the ids just before the last one (`data.objectives.masked_tokens` hides text behind that),
and what scores them is the mean of the encoder's states, through the language model's own head:
log p(class c | text) = log softmax over the classes of logits(mean_i h_i)[V - 2 - c]. So a fine-tuning begins from a
pre-trained run's parameters, all of them and no others (`training.initial`).
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
    """Has `log_probabilities` of a batch's "source" beside what the encoder has. Pre-training leaves room for the class
    tokens with `data.sentinels` of num_classes + 1. Raises ConfigError for as many classes as there are tokens."""

    def __init__(self, *, vocabulary_size: Positive, num_classes: Positive = 2, **inherited: Any):
        if num_classes > vocabulary_size - 2:
            raise ConfigError(f"model.num_classes: {num_classes} classes need as many of {vocabulary_size} tokens")
        super().__init__(vocabulary_size=vocabulary_size, **inherited)
        self.classes = tuple(vocabulary_size - 2 - number for number in range(num_classes))

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, {"pooling": how much each position counts, "encoder"})."""
        tokens = batch["source"]
        memory = self.encode({"tokens": tokens}, key=key)
        share = normalized(jnp.ones(tokens.shape, jnp.float32), tokens != PAD)
        scores = self.vocabulary.log_probabilities(average(memory["hidden"], share))
        of_classes = scores[:, jnp.asarray(self.classes, jnp.int32)].astype(jnp.float32)
        return jax.nn.log_softmax(of_classes), {"pooling": {"weights": share}, "encoder": memory["aux"]}
