"""Convolutional attention without copying, Allamanis, Peng & Sutton 2016 (arXiv 1602.03001), section 2.2.

    h_t = GRU(h_{t-1}, E[m_{t-1}]),   alpha = softmax(conv(F h_t / |F h_t|, K_att)),   n = sum_j alpha_j E[c_j],
    p(m_t) = softmax(n E^T + b)

F consists of two convolutions over the embeddings of the body (`kernels.copying.convolutional_copy`), and h_0 is
learned. The released code computes the attention for m_t from the state before m_{t-1} is read, one step behind the
equations of the paper. This module follows the paper. The GRU of the paper is the `gru` cell with z and 1 - z
exchanged; the cell has one additional bias.

Dropout is applied to the embeddings of the body. With the same probability, and as in the released code, the GRU
receives the context n of the previous step instead of the embedding of m_{t-1}; this is drawn once per snippet. The
released code also applies dropout to the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.kernels.copying import CopyAttention, convolutional_copy_attention, convolutional_features
from attention_research.layers.dropout import dropout
from attention_research.layers.linear import glorot_uniform
from attention_research.models.copying.extended import words
from attention_research.models.copying.vocabularies import TiedVocabulary
from attention_research.models.sequences import Sequence, sequence, shift_right
from attention_research.parallel.replica_settings import value
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class ConvAttention(nnx.Module):
    """Maps the sub-tokens of a function body to those of its name.

    `width` is D, `first_maps` is k1, and k2 is the width of the cell. `windows` are w1, w2, w3. The values of the paper
    are D 128, k1 32, k2 16, and windows 18, 19, 2 (from the released script).
    """

    #: The convolutions of a step: alpha, and for a copying model also kappa and lambda.
    heads: tuple[str, ...] = ("attention",)

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        first_maps: Positive = 32,
        windows: tuple[Positive, Positive, Positive] = (18, 19, 2),
        dropout_rate: Rate = 0.4,
        dtype: Literal["float32", "bfloat16"] = "float32",
        cell: Child["recurrent_cell"] = "gru",
        rngs: nnx.Rngs,
    ):
        self.max_length, self.dropout_rate = max_length, dropout_rate
        self.vocabulary = TiedVocabulary(vocabulary_size=vocabulary_size, width=width, dtype=dtype, rngs=rngs)
        self.cell = cell(input_width=width, rngs=rngs)
        maps, (first, second, third) = self.cell.width, windows
        self.first_kernel = nnx.Param(glorot_uniform(rngs.params(), (first, width, first_maps), jnp.float32))
        self.first_bias = nnx.Param(jnp.zeros((first_maps,), jnp.float32))
        self.second_kernel = nnx.Param(glorot_uniform(rngs.params(), (second, first_maps, maps), jnp.float32))
        self.second_bias = nnx.Param(jnp.zeros((maps,), jnp.float32))
        # F h / |F h| has entries of about (P k2)^-1/2. These kernels are therefore initialized with standard deviation
        # 1, where the released code uses 1e-4.
        self.head_kernels = nnx.Param(jax.random.normal(rngs.params(), (len(self.heads), third, maps), jnp.float32))
        self.meta_bias = nnx.Param(jnp.zeros((), jnp.float32)) if "meta" in self.heads else None
        self.first_state = nnx.Param(0.1 * jax.random.normal(rngs.params(), (maps,), jnp.float32))

    # The model protocol

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: embeddings [B S D], F [B P k2], and the source."""
        tokens = source["tokens"]
        embedded = dropout(self.vocabulary.embed(tokens), self.dropout_rate, key)
        edge = self.vocabulary.embed(jnp.full((), PAD, tokens.dtype))
        features = convolutional_features(
            embedded, self.first_kernel[...], self.first_bias[...], self.second_kernel[...], self.second_bias[...],
            edge, window=self.head_kernels.shape[1], mask=words(tokens),
        )  # fmt: skip
        return {"embedded": embedded, "features": features, "source": tokens}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"} per target token, aux of the decoder [B T ...])."""
        keys = (None, None) if key is None else jax.random.split(key)
        memory = self.encode(sequence(batch, "source"), key=keys[0])
        target = sequence(batch, "target")
        fed = self.vocabulary.embed(shift_right(target))
        by_context = self._by_context(fed.shape[0], keys[1])

        def step(carry: tuple[Any, Array], embedded: Array) -> tuple[tuple[Any, Array], CopyAttention]:
            state, context = carry
            state = self.cell(jnp.where(by_context[:, None], context, embedded), state)
            attended = self._attend(memory, state)
            return (state, attended.context), attended

        # The first input is always the embedding of BOS, since there is no earlier context.
        first = (self._first_state(fed.shape[0], fed.dtype), fed[:, 0])
        _, attended = jax.lax.scan(step, first, fed.swapaxes(0, 1))
        attended = CopyAttention(*(x.swapaxes(0, 1) for x in attended))
        values = self.vocabulary.log_likelihood(attended.context, target["tokens"])
        values = self._values(values, attended, memory["source"], target["tokens"])
        return {**values, "mask": target["tokens"] != PAD}, {"encoder": {}, "decoder": self._collected(attended)}

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token. `length` is unused."""
        del length
        embedded = memory["embedded"]
        return {"memory": dict(memory), "state": self._first_state(embedded.shape[0], embedded.dtype)}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B X"], dict[str, Any]]:
        """(cache, log p of the next token, collected [B ...]), given the previous token (BOS first)."""
        memory = cache["memory"]
        state = self.cell(self.vocabulary.embed(tokens), cache["state"])
        attended = self._attend(memory, state)
        log_probabilities = self.vocabulary.log_probabilities(attended.context)
        log_probabilities = self._extended(log_probabilities, attended, memory["source"])
        return {"memory": memory, "state": state}, log_probabilities, {"decoder": self._collected(attended)}

    # Overridden by copying models

    def _values(self, values: dict[str, Array], attended: CopyAttention, source: Array, target: Array) -> dict:
        """The values per token of `log_likelihood`, given those of the vocabulary."""
        del attended, source, target
        return values

    def _extended(self, log_probabilities: Array, attended: CopyAttention, source: Array) -> Array:
        """The log-probabilities of `step`, given those of the vocabulary."""
        del attended, source
        return log_probabilities

    def _collected(self, attended: CopyAttention) -> dict[str, Array]:
        return {"alignment": attended.weights}

    # Parts

    def _first_state(self, batch: int, dtype: Any) -> dict[str, Array]:
        state = self.cell.initial(batch, dtype)
        return {**state, "hidden": state["hidden"] + self.first_state[...].astype(dtype)}

    def _attend(self, memory: Mapping[str, Any], state: Mapping[str, Array]) -> CopyAttention:
        """The attention of one step, without the axis of steps."""
        kernels = self.head_kernels[...]
        attention, copy, meta = (kernels[min(head, len(self.heads) - 1)] for head in range(3))
        bias = jnp.zeros((), jnp.float32) if self.meta_bias is None else self.meta_bias[...]
        attended = convolutional_copy_attention(
            memory["embedded"], memory["features"], state["hidden"][:, None], attention, copy, meta, bias,
            mask=words(memory["source"]),
        )  # fmt: skip
        return CopyAttention(*(x[:, 0] for x in attended))

    def _by_context(self, batch: int, key: Key[Array, ""] | None) -> Bool[Array, "B"]:
        """The snippets whose cell receives the context instead of the embedding."""
        rate = value(self.dropout_rate)
        if key is None or (isinstance(rate, float) and rate == 0.0):
            return jnp.zeros((batch,), bool)
        return jax.random.bernoulli(key, rate, (batch,))
