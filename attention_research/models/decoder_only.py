"""A decoder-only Transformer language model (Liu et al. 2018; Radford et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.models.predictions import predicted
from attention_research.models.sequences import positions, sequence, shift_right, visible
from attention_research.signatures import Child, Positive, Rate


class TransformerDecoder(nnx.Module):
    """An autoregressive language model p(target) with `log_likelihood`, `start` and `step`.

    There is no source and no `encode`. `start` takes the number of rows instead of a memory.
    """

    def __init__(
        self,
        *,
        vocabulary_size: Positive,
        max_length: Positive,
        width: Positive,
        num_layers: Positive,
        num_heads: Positive,
        head_width: Positive | None = None,
        dropout_rate: Rate = 0.1,
        dtype: Literal["float32", "bfloat16"] = "float32",
        self_attention: Child["causal_attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "sinusoidal",
        vocabulary: Child["vocabulary"] = "shared",
        decoder: Child["causal_stack"] = "transformer",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, width, num_layers, num_heads, head_width, dropout_rate  # inherited by the child sections
        del self_attention, feed_forward, norm, positions
        self.max_length, self.dtype = max_length, dtype
        self.vocabulary = vocabulary(rngs=rngs)
        self.decoder = decoder(rngs=rngs)
        initialization()(self, rngs)

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "predicted", "mask"} per token of ``batch["target"]``, aux)."""
        target = sequence(batch, "target")
        mask = visible(target, target) if "segments" in target else None
        x = self.vocabulary.target(shift_right(target))
        hidden, aux = self.decoder(x, positions(target), mask, real=target["tokens"] != 0, key=key)
        values = self.vocabulary.log_likelihood(hidden, target["tokens"])
        most_probable = predicted(self.vocabulary, hidden)
        return {**values, "predicted": most_probable, "mask": target["tokens"] != 0}, {"decoder": aux}

    def start(self, rows: int, length: int | None = None) -> dict[str, Any]:
        """The cache before the first token, for `rows` texts."""
        layers = self.decoder.start(rows, self.max_length if length is None else length, jnp.dtype(self.dtype))
        return {"index": jnp.zeros((), jnp.int32), "layers": layers}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected), given the previous token (BOS first)."""
        hidden, layers, aux = self.decoder.step(
            self.vocabulary.target(tokens[:, None]), cache["layers"], cache["index"]
        )
        return {"index": cache["index"] + 1, "layers": layers}, self.vocabulary.log_probabilities(hidden[:, 0]), aux
