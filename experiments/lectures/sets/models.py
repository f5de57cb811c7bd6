"""Models that answer a question about a set: embeddings, a mixer that gives one vector, and a classifier.

- `attention`: two pre-norm Transformer blocks, then the mean over the elements. Without positions its answer cannot
  depend on the order of the elements, because attention is permutation equivariant.
- `attention_positions`: the same with sinusoids added to the embeddings.
- `rnn`: the last state of a gated recurrent unit.
- `mean`: the mean of the embeddings, that is the set as a bag of symbols.

The classifier has one hidden layer of ReLUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.layers.block import Block
from attention_research.layers.linear import Linear
from attention_research.layers.pooling.average import average, normalized
from attention_research.layers.recurrent.scan import run
from attention_research.registry import lookup
from attention_research.tokens import PAD
from attention_research.training.fitting import fit

from .tasks import Sets, answers, ascending, classes, draw, shuffled

MODELS = ("attention", "attention_positions", "rnn", "mean")
PRE_NORM = (("norm", "self_attention", "residual"), ("norm", "feed_forward", "residual"))
#: The order of the elements in training.
ORDERS = {"any": shuffled, "sorted": lambda tokens, key: ascending(tokens)}


class SetClassifier(nnx.Module):
    """A model from rows of symbols [B T], padded with 0, to scores of the answers [B C].

    Raises ValueError for an unknown kind.
    """

    def __init__(
        self,
        kind: str,
        sets: Sets,
        *,
        num_classes: int,
        width: int,
        num_heads: int,
        num_layers: int,
        recurrent_width: int,
        hidden_width: int,
        rngs: nnx.Rngs,
    ):
        if kind not in MODELS:
            raise ValueError(f"{kind!r}: expected one of {', '.join(MODELS)}")
        self.embedding = nnx.Param(jax.random.normal(rngs.params(), (sets.symbols + 1, width)))
        places = partial(lookup("positions", "sinusoidal"), width=width, max_length=sets.largest)
        self.positions = places(rngs=rngs) if kind == "attention_positions" else None
        children = {
            "norm": partial(lookup("norm", "layer_norm"), width=width),
            "self_attention": partial(
                lookup("encoder_attention", "standard"), width=width, num_heads=num_heads, head_width=None
            ),
            "feed_forward": partial(lookup("feed_forward", "dense"), width=width, hidden_width=2 * width),
        }
        layers = num_layers if kind.startswith("attention") else 0
        self.blocks = nnx.List(
            [Block(steps=PRE_NORM, children=children, dropout_rate=0.0, rngs=rngs) for _ in range(layers)]
        )
        cell = partial(lookup("recurrent_cell", "gru"), width=recurrent_width, input_width=width)
        self.cell = cell(rngs=rngs) if kind == "rnn" else None
        self.hidden = Linear(recurrent_width if kind == "rnn" else width, hidden_width, rngs=rngs)
        self.output = Linear(hidden_width, num_classes, rngs=rngs)

    def __call__(self, tokens: Int[Array, "B T"]) -> Float[Array, "B C"]:
        real = tokens != PAD
        x = self.embedding[...][tokens]
        if self.positions is not None:
            x = self.positions(x, jnp.arange(tokens.shape[1], dtype=jnp.int32)[None])
        for block in self.blocks:
            x, _ = block(x, {"self_attention": {"mask": real[:, None, None]}})
        if self.cell is None:
            summary = average(x, normalized(jnp.ones(real.shape, jnp.float32), real))
        else:
            summary = run(self.cell, x, self.cell.initial(x.shape[0], x.dtype), real)[1]["hidden"]
        return self.output(jax.nn.relu(self.hidden(summary)))


def by_order(
    classify: Any, tokens: Int[Array, "B T"], right: Int[Array, "B"], orders: int, key: Key[Array, ""]
) -> dict[str, Any]:
    """Measures the accuracy of ``classify(rows)``, which returns scores, on the same sets in several orders.

    "by_order" is the list of accuracies, each with new random orders; "accuracy" is their mean and "spread" the
    difference between best and worst. "changed" is the share of sets whose answer is not the same in all orders.
    "ascending" is the accuracy in ascending order.
    """
    keys = jax.random.split(key, orders)
    said = jnp.stack([jnp.argmax(classify(shuffled(tokens, one)), axis=1) for one in keys])
    found = [float(x) for x in jnp.mean(said == right, axis=1)]
    return {
        "by_order": found,
        "accuracy": sum(found) / orders,
        "spread": max(found) - min(found),
        "changed": float(jnp.mean((said != said[0]).any(axis=0))),
        "ascending": float(jnp.mean(jnp.argmax(classify(ascending(tokens)), axis=1) == right)),
    }


def measure_sets(
    *, model: str, task: str, seed: int, steps: int, batch_size: int, learning_rate: float, examples: int, orders: int,
    sizes: dict[str, int], sets: Sequence[int], **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Measures `by_order` for a model trained on sets in any order, and, with names that begin with "sorted_", for a
    model trained only on sets in ascending order.

    Also returns "parameters", and "majority", the accuracy of always giving the most frequent answer.
    """
    kinds = Sets(*sets)
    make = lambda rngs: SetClassifier(model, kinds, num_classes=classes(task, kinds), rngs=rngs, **sizes)
    keys = jax.random.split(jax.random.key(seed), 4)
    tokens = draw(task, kinds, examples, keys[0])
    right = answers(task, tokens)

    def loss(module: SetClassifier, tokens: Array) -> Array:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(module(tokens)), answers(task, tokens)[:, None], axis=1)
        return -jnp.mean(chosen)

    found: dict[str, Any] = {"majority": float(jnp.max(jnp.bincount(right, length=classes(task, kinds))) / examples)}
    for order, arranged in ORDERS.items():

        def batch(key: Array, arranged: Any = arranged) -> Array:
            first, second = jax.random.split(key)
            return arranged(draw(task, kinds, batch_size, first), second)

        structure, parameters, _ = fit(make, loss, batch, keys[1], steps=steps, learning_rate=learning_rate)
        scores = jax.jit(lambda tokens, s=structure, p=parameters: s.merge(p)(tokens))
        prefix = "" if order == "any" else f"{order}_"
        found |= {f"{prefix}{name}": value for name, value in by_order(scores, tokens, right, orders, keys[2]).items()}
    return {**found, "parameters": float(sum(x.size for x in parameters.values()))}
