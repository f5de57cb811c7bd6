"""The neural probabilistic language model of Bengio, Ducharme, Vincent & Jauvin 2003 (JMLR 3, section 2, equation 1).

    x = (C(w_{t-n+1}), ..., C(w_{t-1}))      y = b + W x + U tanh(d + H x)      p(w_t) = softmax(y)

x is the concatenation of the vectors [m] of the n - 1 words before w_t. W are the direct connections from the words to
the output; a row of the paper's table has them (`direct`) or leaves them out, and has hidden units or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.errors import ConfigError
from attention_research.kernels.precision import einsum
from attention_research.layers.embeddings.tied import log_likelihood, logits
from attention_research.models.language_model import at_the_end
from attention_research.models.sequences import sequence
from attention_research.signatures import NonNegative, Positive
from attention_research.tokens import BOS, PAD


class FeedForwardLanguageModel(nnx.Module):
    """An n-gram model by a feed-forward network: `order` is n, `width` is m, and `hidden_width` the number of hidden
    units.

    If a batch has a source, it is the text before the target (`data.running_text`); a row that begins within a text
    also reads the token before it (`models.sequences`). Padding stands before the first word of a text and has its own
    vector. `step` skips BOS, because it is not a word of the text. The output kernel has the rows of W, if `direct`,
    and then those of U. Vectors begin with N(0, 1/10), kernels with N(0, 1 / rows), biases with 0. The model has no
    dropout.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        width: Positive,
        order: Positive = 5,
        hidden_width: NonNegative = 50,
        direct: bool = True,
        rngs: nnx.Rngs,
    ):
        if order < 2:
            raise ConfigError(f"model.order: expected at least 2, so that a word is read, got {order}")
        if not (direct or hidden_width):
            raise ConfigError("model.direct: without direct connections, expected a hidden_width above 0, got 0")

        def normal(rows: int, columns: int, scale: float) -> nnx.Param:
            return nnx.Param(scale * jax.random.normal(rngs.params(), (rows, columns), jnp.float32))

        self.order, self.direct, self.hidden_width = order, direct, hidden_width
        inputs = (order - 1) * width
        outputs = direct * inputs + hidden_width
        self.table = normal(vocabulary_size, width, 0.1**0.5)
        if hidden_width:
            self.hidden_kernel = normal(inputs, hidden_width, inputs**-0.5)
            self.hidden_bias = nnx.Param(jnp.zeros((hidden_width,), jnp.float32))
        self.output_kernel = normal(outputs, vocabulary_size, outputs**-0.5)
        self.output_bias = nnx.Param(jnp.zeros((vocabulary_size,), jnp.float32))

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "predicted", "mask"} per token of ``batch["target"]``, {})."""
        del key
        target = sequence(batch, "target")
        if "segments" in target:
            raise ValueError("packed rows are not supported: the words of one text would be read before another text")
        tokens = target["tokens"]
        before = self.start(len(tokens))
        earlier = [batch["source"]] if "source" in batch else []
        if "before" in target:
            first = target["before"][:, None].astype(tokens.dtype)
            earlier.append(jnp.where(first == BOS, PAD, first))
        if earlier:
            words = earlier[0] if len(earlier) == 1 else jnp.concatenate(earlier, axis=1)
            before = jnp.concatenate([before, at_the_end(words)], axis=1)
        text, start, length = jnp.concatenate([before, tokens], axis=1), before.shape[1], tokens.shape[1]
        places = start + 1 - self.order + jnp.arange(length)[:, None] + jnp.arange(self.order - 1)
        features = self._features(text[:, places])
        values = log_likelihood(features, self.output_kernel[...], tokens, self.output_bias[...])
        return {**values, "predicted": jnp.argmax(self._scores(features), axis=-1), "mask": tokens != PAD}, {}

    def start(self, rows: int, length: int | None = None) -> Int[Array, "B words"]:
        """The words before the first one, for `rows` texts of any length: padding."""
        del length
        return jnp.full((rows, self.order - 1), PAD, jnp.int32)

    def step(
        self, cache: Int[Array, "B words"], tokens: Int[Array, "B"]
    ) -> tuple[Int[Array, "B words"], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, {}), given the previous token (BOS first)."""
        last = tokens[:, None].astype(cache.dtype)
        words = jnp.where(last == BOS, cache, jnp.concatenate([cache[:, 1:], last], axis=1))
        return words, jax.nn.log_softmax(self._scores(self._features(words))), {}

    def _scores(self, features: Float[Array, "*B features"]) -> Float[Array, "*B V"]:
        """y of the equation."""
        return logits(features, self.output_kernel[...]) + self.output_bias[...]

    def _features(self, words: Int[Array, "*B words"]) -> Float[Array, "*B features"]:
        """The inputs of the output layer after the given words, the earliest first: x if `direct`, and hidden units."""
        x = self.table[...][words].reshape(*words.shape[:-1], -1)
        parts = [x] if self.direct else []
        if self.hidden_width:
            parts.append(jnp.tanh(einsum("...I,IH->...H", x, self.hidden_kernel[...]) + self.hidden_bias[...]))
        return jnp.concatenate(parts, axis=-1)
