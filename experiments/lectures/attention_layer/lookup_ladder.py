"""Compares projections and scores of the general attention layer on a lookup that raw dot products cannot solve.

A memory has S items. An item consists of an address a_j and a content, one of C classes; a fixed rotation is applied
to both together. A query is the address of one item with its coordinates permuted in a fixed way, and the target is the
class of that item. The layer computes scores and averages the values with the softmax of the scores
(`kernels.attend`), and a linear classifier reads the context. `projections` says which of queries, keys and values are
first multiplied by a learned matrix [D D]: "none", "keys", "keys_values" or "all".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels import additive_scores, attend, dot_scores
from attention_research.kernels.scores import cosine_scores, scaled_dot_scores
from attention_research.layers.linear import Linear
from attention_research.training.fitting import fit_best

LADDER = {"none": (), "keys": ("key",), "keys_values": ("key", "value"), "all": ("query", "key", "value")}
SCORES = ("dot", "scaled_dot", "cosine", "cosine_temperature", "additive")
#: The number of examples for an accuracy.
TEST = 4096


class Lookup(NamedTuple):
    """Sizes of the task. A vector has `address` + `classes` coordinates."""

    items: int = 12
    address: int = 12
    classes: int = 8

    @property
    def width(self) -> int:
        return self.address + self.classes


class Batch(NamedTuple):
    """Queries, memories, and target classes."""

    query: Float[Array, "B D"]
    memory: Float[Array, "B S D"]
    wanted: Int[Array, "B"]


def draw(lookup: Lookup, task: Key[Array, ""], key: Key[Array, ""], batch: int) -> Batch:
    """Draws examples. The rotation and the permutation are drawn from the key `task`."""
    turned, mixed = jax.random.split(task)
    rotation = jnp.linalg.qr(jax.random.normal(turned, (lookup.width, lookup.width)))[0]
    shuffle = jax.random.permutation(mixed, lookup.address)
    keys = jax.random.split(key, 3)
    address = jax.random.normal(keys[0], (batch, lookup.items, lookup.address))
    classes = jax.random.randint(keys[1], (batch, lookup.items), 0, lookup.classes)
    content = jax.nn.one_hot(classes, lookup.classes) * lookup.classes**0.5
    chosen = jax.random.randint(keys[2], (batch,), 0, lookup.items)
    rows = jnp.arange(batch)
    asked = jnp.concatenate([address[rows, chosen][:, shuffle], jnp.zeros((batch, lookup.classes))], axis=-1)
    memory = jnp.concatenate([address, content], axis=-1)
    return Batch(asked @ rotation, memory @ rotation, classes[rows, chosen])


class Layer(nnx.Module):
    """The attention layer and its classifier."""

    def __init__(self, lookup: Lookup, score: str, projections: str, *, rngs: nnx.Rngs):
        if score not in SCORES:
            raise ValueError(f"{score!r}: expected one of {', '.join(SCORES)}")
        width, learned = lookup.width, LADDER[projections]
        project: Callable[[str], Any] = lambda part: (
            Linear(width, width, use_bias=False, rngs=rngs) if part in learned else None
        )
        self.query, self.key, self.value = project("query"), project("key"), project("value")
        self.score = score
        self.temperature: Any = nnx.Param(jnp.ones(())) if score == "cosine_temperature" else None
        normal = lambda *shape: nnx.Param(jax.random.normal(rngs.params(), shape) * width**-0.5)
        additive = score == "additive"
        self.additive_query: Any = normal(width, width) if additive else None
        self.additive_key: Any = normal(width, width) if additive else None
        self.additive_v: Any = normal(width) if additive else None
        self.classifier = Linear(width, lookup.classes, rngs=rngs)

    def __call__(self, batch: Batch) -> Float[Array, "B C"]:
        through = lambda module, x: x if module is None else module(x)
        query = through(self.query, batch.query[:, None])
        keys, values = through(self.key, batch.memory), through(self.value, batch.memory)
        return self.classifier(attend(self.scores(query, keys), values)[0][:, 0])

    def scores(self, query: Float[Array, "B 1 D"], keys: Float[Array, "B S D"]) -> Float[Array, "B 1 S"]:
        """Computes the scores of the kind `self.score`."""
        if self.score == "additive":
            weights = (self.additive_query[...], self.additive_key[...], self.additive_v[...])
            return additive_scores(query, keys, *weights)
        if self.score == "cosine_temperature":
            return cosine_scores(query, keys, jnp.exp(-self.temperature[...]))
        return {"dot": dot_scores, "scaled_dot": scaled_dot_scores, "cosine": cosine_scores}[self.score](query, keys)


def measure_lookup(
    *, score: str, projections: str, steps: int, batch_size: int, rates: tuple[float, ...], seed: int, **sizes: Any
) -> dict[str, Any]:
    """Trains a layer with each of `rates` and keeps the one with the lowest loss on validation examples.

    Returns "accuracy" and "loss" on test examples, "rate", "chance" and "parameters". Loss, accuracy, rate and
    parameters are None if no learning rate ends with a finite loss.
    """
    lookup = Lookup(**{name: value for name, value in sizes.items() if name in Lookup._fields})
    task, trained, tested, validated = jax.random.split(jax.random.key(seed), 4)
    make = lambda rngs: Layer(lookup, score, projections, rngs=rngs)

    def loss(layer: Layer, batch: Batch) -> Float[Array, ""]:
        return optax.softmax_cross_entropy_with_integer_labels(layer(batch), batch.wanted).mean()

    held_out, test = (draw(lookup, task, key, TEST) for key in (validated, tested))
    batches = lambda key: draw(lookup, task, key, batch_size)
    best = fit_best(make, loss, batches, lambda layer: loss(layer, held_out), trained, steps=steps, rates=rates)
    if best is None:
        return {"loss": None, "accuracy": None, "rate": None, "chance": 1 / lookup.classes, "parameters": None}
    return {
        "loss": float(loss(best.module, test)),
        "accuracy": float(jnp.mean(jnp.argmax(best.module(test), axis=-1) == test.wanted)),
        "rate": best.rate,
        "chance": 1 / lookup.classes,
        "parameters": best.parameters,
    }
