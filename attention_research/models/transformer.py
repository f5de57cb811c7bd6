"""The Transformer, Vaswani et al. 2017, with encoder, decoder and vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels.masks import padding_mask
from attention_research.models.sequences import Sequence, positions, sequence, shift_right, visible
from attention_research.signatures import Child, Positive, Rate


class Transformer(nnx.Module):
    """Maps source tokens to target tokens.

    `self_attention`, `feed_forward`, `norm` and `positions` are the defaults of the encoder and the decoder, which can
    override them in their own sections. If `head_width` is None, it is width / num_heads.

    A decoding step reads a cache with the current position and the caches of the layers. The cross-attentions cache
    everything that they need of the memory. Packed batches are for training only; `start` and `step` take one example
    per row.

    >>> from attention_research.config import build_model
    >>> section = {"kind": "transformer", "width": 8, "num_heads": 2, "num_layers": 1}
    >>> section["feed_forward"] = {"kind": "dense", "hidden_width": 16}
    >>> make = build_model(section, max_length=8, vocabulary_size=20)
    >>> batch = {"source": jnp.array([[5, 6, 2]]), "target": jnp.array([[7, 2]])}
    >>> score = lambda: make(rngs=nnx.Rngs(0)).log_likelihood(batch)[0]
    >>> jax.tree.map(jnp.shape, jax.eval_shape(score))  # `jax.jit(score)()` computes them
    {'log_likelihood': (1, 2), 'log_normalizer': (1, 2), 'mask': (1, 2), 'smooth_log_likelihood': (1, 2)}
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
        self_attention: Child["attention"] = "standard",
        feed_forward: Child["feed_forward"] = "dense",
        norm: Child["norm"] = "layer_norm",
        positions: Child["positions"] = "sinusoidal",
        vocabulary: Child["vocabulary"] = "shared",
        encoder: Child["encoder"] = "transformer",
        decoder: Child["decoder"] = "transformer",
        initialization: Child["initialization"] = "as_built",
        rngs: nnx.Rngs,
    ):
        del vocabulary_size, width, num_layers, num_heads, head_width, dropout_rate, dtype  # inherited by the children
        del self_attention, feed_forward, norm, positions
        self.max_length = max_length
        self.vocabulary = vocabulary(rngs=rngs)
        self.encoder = encoder(rngs=rngs)
        self.decoder = decoder(rngs=rngs)
        initialization()(self, rngs)

    def encode(self, source: Sequence, *, key: Key[Array, ""] | None = None) -> dict[str, Any]:
        """The memory: hidden states [B S D], the source, and the aux of the encoder."""
        x = self.vocabulary.source(source["tokens"])
        hidden, aux = self.encoder(x, positions(source), visible(source, source), key=key)
        return {"hidden": hidden, "source": dict(source), "aux": aux}

    def writer(self) -> Any:
        """The complete decoder. A subclass can share its layers with the encoder."""
        return self.decoder

    def log_likelihood(
        self, batch: Mapping[str, Array], *, key: Key[Array, ""] | None = None
    ) -> tuple[dict[str, Float[Array, "B T"]], dict[str, Any]]:
        """({"log_likelihood", "smooth_log_likelihood", "mask"} per target token, aux)."""
        keys = (None, None) if key is None else jax.random.split(key)
        memory = self.encode(sequence(batch, "source"), key=keys[0])
        target = sequence(batch, "target")
        hidden, aux = self.writer()(
            self.vocabulary.target(shift_right(target)), positions(target),
            visible(target, target) if "segments" in target else None,
            memory["hidden"], self.encoder.memory_mask(visible(target, memory["source"])),
            real=target["tokens"] != 0, key=keys[1],
        )  # fmt: skip
        values = self.vocabulary.log_likelihood(hidden, target["tokens"])
        return {**values, "mask": target["tokens"] != 0}, {"encoder": memory["aux"], "decoder": aux}

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token, for targets of up to `length` (default `max_length`)."""
        mask = self.encoder.memory_mask(padding_mask(memory["source"]["tokens"] != 0))
        layers = self.writer().start(memory["hidden"], mask, self.max_length if length is None else length)
        return {"index": jnp.zeros((), jnp.int32), "layers": layers}

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, collected), given the previous token (BOS first)."""
        x = self.vocabulary.target(tokens[:, None])
        hidden, layers, aux = self.writer().step(x, cache["layers"], cache["index"])
        return {"index": cache["index"] + 1, "layers": layers}, self.vocabulary.log_probabilities(hidden[:, 0]), aux
