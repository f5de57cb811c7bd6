"""A recurrent language model, Mikolov et al. 2010, with stacked cells and dropout between them, Zaremba et al. 2014.

    x_t = E y_{t-1}      h^1_t = cell_1(d(x_t), h^1_{t-1})      h^l_t = cell_l(d(h^{l-1}_t), h^l_{t-1})
    p(y_t | y_<t) = softmax(d(h^L_t) W + b)

d is dropout, which is not applied between time steps. The kind of vocabulary determines whether weights are tied: with
`shared` and `shared_with_bias`, W is the transpose of E (Press & Wolf 2017, Inan et al. 2017); with `untied`, the two
are separate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.layers.dropout import dropout
from attention_research.layers.recurrent.layers import RecurrentLayers, State
from attention_research.models.predictions import predicted
from attention_research.models.sequences import sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class RecurrentLanguageModel(nnx.Module):
    """An autoregressive language model p(target) with `log_likelihood`, `start` and `step`.

    There is no source and no `encode`. `start` takes the number of rows instead of a memory. Embeddings have the width
    of the state. A row holds one text of at most `max_length` tokens. Packed rows are not supported, because the state
    would carry over from one example to the next.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive = 1,
        dropout_rate: Rate = 0.1,
        dtype: Literal["float32", "bfloat16"] = "float32",
        cell: Child["recurrent_cell"] = "lstm",
        vocabulary: Child["vocabulary"] = "shared",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size  # inherited by the vocabulary
        self.max_length, self.dropout_rate, self.dtype = max_length, dropout_rate, dtype
        self.vocabulary = vocabulary(rngs=rngs)
        self.layers = RecurrentLayers(
            cell=cell, num_layers=num_layers, width=width, dropout_rate=dropout_rate, input_width=width, rngs=rngs
        )
        initialization()(self, rngs)

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "predicted", "mask"} per token of ``batch["target"]``, {})."""
        target = sequence(batch, "target")
        rows, length = target["tokens"].shape
        if "segments" in target:
            raise ValueError("packed rows are not supported: a recurrent state would carry over between their texts")
        if length > self.max_length:
            raise ValueError(f"target: {length} tokens per row, but max_length is {self.max_length}")
        keys = (None, None) if key is None else jax.random.split(key)
        x = self.vocabulary.target(shift_right(target))
        hidden, _ = self.layers(x, self._states(rows), key=keys[0])  # padding comes last and affects no token
        hidden = dropout(hidden, self.dropout_rate, keys[1])
        values = self.vocabulary.log_likelihood(hidden, target["tokens"])
        return {**values, "predicted": predicted(self.vocabulary, hidden), "mask": target["tokens"] != PAD}, {}

    def start(self, rows: int, length: int | None = None) -> tuple[State, ...]:
        """The states before the first token, for `rows` texts of any length."""
        del length
        return self._states(rows)

    def step(
        self, cache: tuple[State, ...], tokens: Int[Array, "B"]
    ) -> tuple[tuple[State, ...], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, {}), given the previous token (BOS first)."""
        hidden, states = self.layers.step(self.vocabulary.target(tokens), cache)
        return states, self.vocabulary.log_probabilities(hidden), {}

    def _states(self, rows: int) -> tuple[State, ...]:
        return self.layers.initial(rows, jnp.dtype(self.dtype))
