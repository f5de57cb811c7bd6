"""An image classifier: the feature map of a network is pooled, then a linear layer gives the class (He et al. 2015).

log p(class | image) = log softmax(W d + b), where d pools the cells of the map. The default is their mean. Other
poolings of text classifiers also work, with a cell in the place of a token, but not those that weigh words (`idf`,
`tf_idf`, `token_weight`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.linear import Linear
from attention_research.layers.running_statistics import UPDATES, nested
from attention_research.signatures import Child, Positive, Rate


class ImageClassifier(nnx.Module):
    """A model with `log_probabilities` of the "image" of a batch. `width` is inherited by `features`.

    Dropout is applied to d. With a key (training), dropout is active and batch norms use the statistics of the batch.
    """

    def __init__(
        self,
        *,
        num_classes: Positive,
        width: Positive,
        dropout_rate: Rate = 0.0,
        dtype: Literal["float32", "bfloat16"] = "float32",
        features: Child["image_features"] = "resnet",
        pooling: Child["pooling"] = "mean",
        rngs: nnx.Rngs,
    ):
        del width, dtype  # inherited by the features
        self.dropout_rate = dropout_rate
        self.features = features(rngs=rngs)
        self.pooling = pooling(input_width=self.features.output_width, rngs=rngs)
        self.output = Linear(self.pooling.output_width, num_classes, rngs=rngs)

    def log_probabilities(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[Float[Array, "B C"], dict[str, Any]]:
        """(log p of each class in float32, {"pooling": {"weights" [B cells]}, "features", "updates"})."""
        keys = (None, None) if key is None else jax.random.split(key)
        grid, aux = self.features(batch["image"], key=keys[0])
        cells = grid.reshape(grid.shape[0], -1, grid.shape[-1])
        vector, pooled = self.pooling(cells, batch, jnp.ones(cells.shape[:2], bool))
        log_p = jax.nn.log_softmax(self.output(dropout(vector, self.dropout_rate, keys[1])).astype(jnp.float32))
        updates = nested(features=aux.pop(UPDATES))
        return log_p, {"pooling": pooled, "features": {"grid": grid, **aux}, UPDATES: updates}
