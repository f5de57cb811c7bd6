"""Small Transformer language models with full attention or an efficient approximation, of any size and context.

    full        softmax over the past               cost T^2
    window      softmax over the last W positions   Beltagy et al. 2020, arXiv 2004.05150
    linear      phi(q) . sum phi(k) v, elu + 1      Katharopoulos et al. 2020, arXiv 2006.16236
    performer   positive random features            Choromanski et al. 2021, arXiv 2009.14794

are causal language models. Linformer (Wang et al. 2020, arXiv 2006.04768) mixes all keys before a query attends to
them, so it cannot be causal. It is trained as a masked language model and compared with `full_masked`, a masked
language model with full attention. All models have pre-norm blocks, sinusoidal positions and tied embeddings.
The masked ones also have conditional positions (a convolution over three neighbours), without which they stay long at
the frequencies of the tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels import (
    dot_product_attention,
    linear_attention,
    linformer_attention,
    performer_attention,
    sinusoidal_positions,
    sliding_window_attention,
)
from attention_research.kernels.efficient import orthogonal_features
from attention_research.layers.attention.linformer import projection_matrix
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.layers.block import Block
from attention_research.layers.positions.conditional import ConditionalPositions
from attention_research.registry import lookup

CAUSAL = ("full", "window", "linear", "performer")
MASKED = ("full_masked", "linformer")
KINDS = (*CAUSAL, *MASKED)
PRE_NORM = (("norm", "self_attention", "residual"), ("norm", "feed_forward", "residual"))
#: The share of tokens that a masked language model predicts.
HIDDEN = 0.15
Mix = Callable[..., Float[Array, "B T N H"]]


@functools.cache
def directions(num_features: int, width: int) -> np.ndarray:
    """The random directions W of Performer, the same for every layer and seed."""
    with jax.ensure_compile_time_eval():
        return np.asarray(orthogonal_features(jax.random.key(0), num_features, width))


class CheapAttention(MultiHeadAttention):
    """Multi-head attention with one of `KINDS` between its projections.

    `linformer` also has projections of keys and values along the length. `cheap` holds the "window", the number of
    "features", or the "rank".
    """

    def __init__(self, kind: str, *, width: int, num_heads: int, length: int, cheap: Mapping[str, int], rngs: nnx.Rngs):
        super().__init__(width=width, num_heads=num_heads, head_width=None, use_bias=False, rngs=rngs)
        shape = (cheap["rank"], length)
        self.shorten_keys: Any = projection_matrix(shape, rngs) if kind == "linformer" else None
        self.shorten_values: Any = projection_matrix(shape, rngs) if kind == "linformer" else None
        self.kind, self.window, self.features = kind, cheap["window"], cheap["features"]

    def __call__(  # type: ignore[override]  # of itself alone
        self, x: Float[Array, "B T D"]
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        return self.finish(self.by_kind()(self.queries(x), *self.keys_values(x))), {}

    def by_kind(self) -> Mix:
        """Returns the function from queries, keys and values to contexts for this kind of attention."""
        match self.kind:
            case "window":
                return partial(sliding_window_attention, window=self.window, is_causal=True)
            case "linear":
                return partial(linear_attention, is_causal=True)
            case "performer":
                features = jnp.asarray(directions(self.features, self.head_width))
                return partial(performer_attention, features=features, is_causal=True)
            case "linformer":
                matrices = (self.shorten_keys[...], self.shorten_values[...])
                return lambda query, key, value: linformer_attention(query, key, value, *matrices)
        return partial(dot_product_attention, is_causal=self.kind == "full")


class TextModel(nnx.Module):
    """Tokens [B T] -> logits [B T V]. Raises ValueError for an unknown kind."""

    def __init__(
        self, kind: str, *, vocabulary_size: int, width: int, num_layers: int, head_width: int, length: int,
        cheap: Mapping[str, int], rngs: nnx.Rngs,
    ):  # fmt: skip
        if kind not in KINDS:
            raise ValueError(f"{kind!r}: expected one of {', '.join(KINDS)}")
        self.table = nnx.Param(jax.random.normal(rngs.params(), (vocabulary_size, width)) * width**-0.5)
        self.near = None if kind in CAUSAL else ConditionalPositions(width=width, rngs=rngs)
        heads: dict[str, Any] = {"num_heads": width // head_width, "length": length, "cheap": dict(cheap)}
        children = {
            "norm": partial(lookup("norm", "layer_norm"), width=width),
            "self_attention": partial(CheapAttention, kind, width=width, **heads),
            "feed_forward": partial(lookup("feed_forward", "dense"), width=width, hidden_width=4 * width),
        }
        self.blocks = nnx.List(
            [Block(steps=PRE_NORM, children=children, dropout_rate=0.0, rngs=rngs) for _ in range(num_layers)]
        )
        self.norm = lookup("norm", "layer_norm")(width=width, rngs=rngs)

    def __call__(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T V"]:
        table = self.table[...]
        x = table[tokens] * table.shape[1] ** 0.5 + sinusoidal_positions(tokens.shape[1], table.shape[1])
        x = x if self.near is None else self.near(x, jnp.arange(tokens.shape[1])[None])
        for block in self.blocks:
            x, _ = block(x, {})
        return jnp.einsum("BTD,VD->BTV", self.norm(x), table)


def losses(model: TextModel, kind: str, rows: Int[Array, "B U"], key: Key[Array, ""]) -> Float[Array, "B T"]:
    """The cross-entropy of each predicted token in rows of T + 1 tokens, and 0 at the other tokens.

    A causal model predicts all tokens except the first. A masked model predicts those of the first T tokens that are
    masked at random with `key`; in its input they are replaced by the last id of the vocabulary.
    """
    if kind in CAUSAL:
        return optax.softmax_cross_entropy_with_integer_labels(model(rows[:, :-1]), rows[:, 1:])
    target = rows[:, :-1]
    hidden = jax.random.bernoulli(key, HIDDEN, target.shape)
    seen = jnp.where(hidden, model.table.shape[0] - 1, target)
    return jnp.where(hidden, optax.softmax_cross_entropy_with_integer_labels(model(seen), target), 0.0)


def mean_loss(model: TextModel, kind: str, rows: Int[Array, "B U"], key: Key[Array, ""]) -> Float[Array, ""]:
    """The mean loss over predicted tokens. For a masked model the sum is divided by their expected number."""
    asked = rows[:, 1:].size * (1.0 if kind in CAUSAL else HIDDEN)
    return losses(model, kind, rows, key).sum() / asked
