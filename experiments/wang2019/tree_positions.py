"""Subject-verb agreement with a small Transformer encoder and different positions: word order, the dependency tree
(Wang et al. 2019, arXiv 1909.00383, section 3.2), or both.

Positions are relative as in Shaw et al. 2018: tables of the clipped distance on keys and values. The distance from word
i to word j is j - i or `kernels.structural_distances`. With both, half of the heads use one and half the other. The
model sees the whole sentence and predicts at every verb whether it is singular or plural. The trees are gold trees, so
the results do not depend on a parser. Models are trained by `training.fitting`, because the data of translation have no
trees.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attention_research.kernels import dot_product_attention
from attention_research.kernels.positions import structural_attention, structural_distances
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.layers.block import Block
from attention_research.layers.linear import Linear, glorot_uniform
from attention_research.registry import lookup
from attention_research.training.fitting import fit

from .agreement_trees import PAD, VOCABULARY, Sentences, generate

#: Kind of positions -> the distances of its heads, each used by an equal share of the heads.
POSITIONS = {"none": (), "linear": ("linear",), "dependency": ("dependency",), "both": ("linear", "dependency")}
#: The first distance, from subject to verb, of each class for which accuracy is reported.
FROM = (1, 3, 6, 10)
PRE_NORM = (("norm", "self_attention", "residual"), ("norm", "feed_forward", "residual"))


def distances_of(kind: str, heads: Int[Array, "B T"]) -> Int[Array, "M B T T"]:
    """Returns the distances of each share of the heads; M is 0, 1 or 2."""
    word = jnp.arange(heads.shape[1], dtype=jnp.int32)
    made = {
        "linear": lambda: jnp.broadcast_to(word - word[:, None], (*heads.shape, heads.shape[1])),
        "dependency": lambda: structural_distances(heads),
    }
    found = [made[name]() for name in POSITIONS[kind]]
    return jnp.stack(found) if found else jnp.zeros((0, *heads.shape, heads.shape[1]), jnp.int32)


class DistanceAttention(MultiHeadAttention):
    """Self-attention with tables [M 2k+1 H] on keys and values for M kinds of distances, each used by N / M heads."""

    def __init__(self, *, kinds: int, max_distance: int, width: int, num_heads: int, rngs: nnx.Rngs):
        super().__init__(width=width, num_heads=num_heads, head_width=None, rngs=rngs)
        made = lambda: glorot_uniform(rngs.params(), (kinds, 2 * max_distance + 1, self.head_width), jnp.float32)
        self.key_table = nnx.Param(made()) if kinds else None
        self.value_table = nnx.Param(made()) if kinds else None

    def __call__(  # type: ignore[override]  # is given distances
        self, x: Float[Array, "B T D"], *, distances: Int[Array, "M B T T"], mask: Bool[Array, "B 1 1 T"]
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        query, (key, value) = self.queries(x), self.keys_values(x)
        if self.key_table is None or self.value_table is None:
            return self.finish(dot_product_attention(query, key, value, mask=mask)), {}
        shares = [jnp.split(part, len(distances), axis=2) for part in (query, key, value)]
        tables = self.key_table[...], self.value_table[...]
        parts = [structural_attention(*part, mask=mask) for part in zip(*shares, distances, *tables, strict=True)]
        return self.finish(jnp.concatenate(parts, axis=2)), {}


class NumberTagger(nnx.Module):
    """A model from words [B T] and their heads to scores of singular and plural at every word [B T 2]."""

    def __init__(
        self, kind: str, *, width: int, num_heads: int, num_layers: int, max_distance: int, rngs: nnx.Rngs
    ):  # fmt: skip
        self.kind = kind
        attention = partial(
            DistanceAttention, kinds=len(POSITIONS[kind]), max_distance=max_distance, width=width, num_heads=num_heads
        )
        children = {
            "norm": partial(lookup("norm", "layer_norm"), width=width),
            "self_attention": attention,
            "feed_forward": partial(lookup("feed_forward", "dense"), width=width, hidden_width=2 * width),
        }
        self.embedding = nnx.Param(jax.random.normal(rngs.params(), (VOCABULARY, width)))
        self.blocks = nnx.List(
            [Block(steps=PRE_NORM, children=children, dropout_rate=0.0, rngs=rngs) for _ in range(num_layers)]
        )
        self.norm = children["norm"](rngs=rngs)
        self.output = Linear(width, 2, rngs=rngs)

    def __call__(self, tokens: Int[Array, "B T"], heads: Int[Array, "B T"]) -> Float[Array, "B T 2"]:
        inputs = {"distances": distances_of(self.kind, heads), "mask": (tokens != PAD)[:, None, None]}
        x = self.embedding[...][tokens]
        for block in self.blocks:
            x, _ = block(x, {"self_attention": inputs})
        return self.output(self.norm(x))


def by_distance(said: Int[np.ndarray, "B T"], sentences: Sentences) -> dict[str, float]:
    """The accuracy at all verbs, at those whose nearest noun has the other number, and by the distance of the subject
    ("from_3": 3 to 5 words).

    A class without verbs is left out. "neighbour" is the accuracy of always agreeing with the nearest noun.
    """
    verbs = sentences.plural >= 0
    right = said == sentences.plural
    until = (*FROM[1:], np.inf)
    classes = {
        f"from_{a}": (sentences.distance >= a) & (sentences.distance < b) for a, b in zip(FROM, until, strict=True)
    }
    classes |= {"accuracy": verbs, "attracted": sentences.attracted}
    found = {name: float(right[verbs & where].mean()) for name, where in classes.items() if (verbs & where).any()}
    return {**found, "neighbour": float(1 - sentences.attracted[verbs].mean())}


def without(sentences: Sentences, others: Sentences) -> Sentences:
    """The sentences whose words are in none of the others. Short sentences are often drawn twice."""
    known = {row.tobytes() for row in np.asarray(others.tokens)}
    kept = np.asarray([row.tobytes() not in known for row in np.asarray(sentences.tokens)])
    return Sentences(*(np.asarray(part)[kept] for part in sentences))


def measure_structure(
    *, positions: str, seed: int, lost: float = 0.0, sentences: int, tested: int, max_length: int, steps: int,
    batch_size: int, learning_rate: float, sizes: dict[str, int], **_: Any,
) -> dict[str, float]:  # fmt: skip
    """Computes `by_distance` for a model that is trained on other sentences, and its "parameters"."""
    seen = generate(sentences, max_length, 2 * seed, lost)
    held_out = without(generate(tested, max_length, 2 * seed + 1, lost), seen)
    tokens, heads, plural = (jnp.asarray(part) for part in seen[:3])

    def draw(key: Array) -> tuple[Array, Array, Array]:
        chosen = jax.random.randint(key, (batch_size,), 0, sentences)
        return tokens[chosen], heads[chosen], plural[chosen]

    def loss(module: NumberTagger, batch: tuple[Array, Array, Array]) -> Array:
        tokens, heads, plural = batch
        chances = jax.nn.log_softmax(module(tokens, heads))
        chosen = jnp.take_along_axis(chances, jnp.maximum(plural, 0)[:, :, None], axis=2)[:, :, 0]
        return -jnp.sum(chosen, where=plural >= 0) / jnp.sum(plural >= 0)

    make = lambda rngs: NumberTagger(positions, rngs=rngs, **sizes)
    key = jax.random.key(seed)
    structure, parameters, _ = fit(make, loss, draw, key, steps=steps, learning_rate=learning_rate)
    score = jax.jit(lambda tokens, heads: structure.merge(parameters)(tokens, heads))
    said = np.asarray(jnp.argmax(score(jnp.asarray(held_out.tokens), jnp.asarray(held_out.heads)), axis=2))
    return {**by_distance(said, held_out), "parameters": float(sum(x.size for x in parameters.values()))}
