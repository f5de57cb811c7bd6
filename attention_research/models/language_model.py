"""A language model with a source: source and target pass one stack in sequence (Raffel et al. 2020, section 3.2.2).

    p(y | x) = prod_t p(y_t | x, BOS, y_<t)

T5 compares two such models with encoder-decoders. In a "language model", each position attends to the positions before
it (kind `causal` of the stack). In a "prefix language model" (Liu et al. 2018), source positions attend to the whole
source (kind `prefix`). The likelihood is that of the target alone.

Padding of the source is placed before its tokens, so all sources of a batch end at the same position. Every target then
begins at the same position, and distances between tokens are those of the text. A row holds one example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.models.sequences import Sequence, sequence, shift_right
from attention_research.signatures import Child, Positive, Rate
from attention_research.tokens import PAD


class LanguageModel(nnx.Module):
    """Maps source tokens to target tokens.

    `self_attention`, `feed_forward`, `norm` and `positions` are the defaults of the stack. If `head_width` is None, it
    is width / num_heads. Positions count from the first token of the source and continue in the target. Source and
    target have at most `max_length` tokens each.

    >>> from attention_research.config import build_model
    >>> section = {"kind": "language_model", "width": 8, "num_heads": 2, "num_layers": 1}
    >>> section["feed_forward"] = {"kind": "dense", "hidden_width": 16}
    >>> make = build_model(section, max_length=8, vocabulary_size=20)
    >>> batch = {"source": jnp.array([[5, 6]]), "target": jnp.array([[7, 8, 2]])}  # a prompt and what follows
    >>> score = lambda: make(rngs=nnx.Rngs(0)).log_likelihood(batch)[0]
    >>> jax.eval_shape(score)["log_likelihood"].shape
    (1, 3)
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
        self_attention: Child["prompted_attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "sinusoidal",
        vocabulary: Child["vocabulary"] = "shared",
        decoder: Child["prompted_stack"] = "causal",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, width, num_layers, num_heads, head_width, dropout_rate, dtype  # inherited by the children
        del self_attention, feed_forward, norm, positions
        self.max_length = max_length
        self.vocabulary = vocabulary(rngs=rngs)
        self.decoder = decoder(rngs=rngs)
        initialization()(self, rngs)

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The source with its padding moved to the front, as the stack reads it. The stack itself runs in `start`."""
        del key
        return {"source": {**source, "tokens": at_the_end(one_a_row(source)["tokens"])}}

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"} per target token, aux)."""
        source, target = at_the_end(one_a_row(sequence(batch, "source"))["tokens"]), sequence(batch, "target")
        tokens = target["tokens"]
        seen = jnp.concatenate([source != PAD, jnp.ones_like(tokens, bool)], axis=1)
        real = jnp.concatenate([source != PAD, tokens != PAD], axis=1)
        x = jnp.concatenate([self.vocabulary.source(source), self.vocabulary.target(shift_right(target))], axis=1)
        hidden, aux = self.decoder(x, places(seen), seen[:, None, None], prompt=source.shape[1], real=real, key=key)
        values = self.vocabulary.log_likelihood(hidden[:, source.shape[1] :], tokens)
        return {**values, "mask": tokens != PAD}, {"decoder": aux}

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache after the source, for targets of up to `length` (default `max_length`)."""
        tokens = memory["source"]["tokens"]
        real, longest = tokens != PAD, tokens.shape[1] + (self.max_length if length is None else length)
        layers = self.decoder.prefill(self.vocabulary.source(tokens), places(real), real[:, None, None], longest)
        first = jnp.sum(real, axis=1, dtype=jnp.int32)
        return {"index": jnp.int32(tokens.shape[1]), "place": first, "layers": layers}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected), given the previous token (BOS first)."""
        x, place = self.vocabulary.target(tokens[:, None]), cache["place"]
        hidden, layers, aux = self.decoder.step(x, cache["layers"], cache["index"], place[:, None])
        after = {"index": cache["index"] + 1, "place": place + 1, "layers": layers}
        return after, self.vocabulary.log_probabilities(hidden[:, 0]), aux


def one_a_row(source: Sequence) -> Sequence:
    """Returns the source. Raises ValueError if rows are packed."""
    if "segments" in source:
        raise ValueError("packed rows hold several sources, but this model reads one source per row")
    return source


def at_the_end(tokens: Int[Array, "B S"]) -> Int[Array, "B S"]:
    """Moves the padding of each row to the front.

    >>> at_the_end(jnp.array([[5, 6, 0], [7, 8, 9]])).tolist()
    [[0, 5, 6], [7, 8, 9]]
    """
    lengths = jnp.sum(tokens != PAD, axis=1, keepdims=True)
    return jnp.take_along_axis(tokens, (jnp.arange(tokens.shape[1]) + lengths) % tokens.shape[1], axis=1)


def places(real: Bool[Array, "B T"]) -> Int[Array, "B T"]:
    """The position of each token in its text, from 0. Padding at the front has position 0."""
    return jnp.maximum(jnp.cumsum(real, axis=1, dtype=jnp.int32) - 1, 0)
