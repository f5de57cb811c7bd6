"""The capacity of one recurrent state and the effect of a second direction, on small networks and random symbols.

- Copying: an encoder reads L random symbols. A decoder that starts from the last state only writes them again, with
  teacher forcing. The previous symbol gives no information, because the symbols are independent.
- Tagging: the label of position t is the symbol `ahead` positions later. The network reads in one direction or in both.
- Pairs: the input is M keys with their values, and then one key; the target is the value of that key. The model is
  attention over the pairs, or the last state of a recurrent network that has read the pairs.

All recurrent networks are gated recurrent units (Cho et al. 2014).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from attention_research.kernels import attend
from attention_research.kernels.scores import scaled_dot_scores
from attention_research.layers.linear import Linear
from attention_research.layers.recurrent.scan import run
from attention_research.registry import lookup
from attention_research.training.fitting import fit

#: The number of examples for an accuracy.
TEST = 1024
Tokens = Int[Array, "B T"]


def cell(width: int, input_width: int, rngs: nnx.Rngs) -> nnx.Module:
    """Builds a gated recurrent unit."""
    return lookup("recurrent_cell", "gru")(width=width, input_width=input_width, rngs=rngs)


def over(one: Any, x: Float[Array, "B T D"], state: Any = None, *, reverse: bool = False) -> tuple[Array, Any]:
    """Returns (all states, the last state) of a cell over a sequence."""
    return run(one, x, one.initial(x.shape[0], x.dtype) if state is None else state, reverse=reverse)


class Copier(nnx.Module):
    """An encoder and a decoder of the same width, connected only by the last state."""

    def __init__(self, symbols: int, width: int, *, rngs: nnx.Rngs):
        self.embedding = nnx.Param(jax.random.normal(rngs.params(), (symbols + 1, width)))
        self.encoder, self.decoder = cell(width, width, rngs), cell(width, width, rngs)
        self.output = Linear(width, symbols, rngs=rngs)

    def __call__(self, tokens: Tokens) -> Float[Array, "B T C"]:
        embed = lambda ids: self.embedding[...][ids]
        _, last = over(self.encoder, embed(tokens))
        before = jnp.pad(tokens[:, :-1], ((0, 0), (1, 0)), constant_values=self.embedding.shape[0] - 1)
        return self.output(over(self.decoder, embed(before), last)[0])


class Tagger(nnx.Module):
    """Recurrent states of one direction or of both, followed by a classifier."""

    def __init__(self, symbols: int, width: int, directions: int, *, rngs: nnx.Rngs):
        self.embedding = nnx.Param(jax.random.normal(rngs.params(), (symbols, width)))
        self.forward = cell(width // directions, width, rngs)
        self.backward = cell(width // directions, width, rngs) if directions == 2 else None
        self.output = Linear(width, symbols, rngs=rngs)

    def __call__(self, tokens: Tokens) -> Float[Array, "B T C"]:
        x = self.embedding[...][tokens]
        states = [over(self.forward, x)[0]]
        states += [] if self.backward is None else [over(self.backward, x, reverse=True)[0]]
        return self.output(jnp.concatenate(states, axis=-1))


class Memory(nnx.Module):
    """From pairs and a key to scores of the values, by attention over the pairs or by a recurrent state."""

    def __init__(self, kind: str, symbols: int, width: int, *, rngs: nnx.Rngs):
        normal = lambda: nnx.Param(jax.random.normal(rngs.params(), (symbols, width)))
        self.keys, self.values = normal(), normal()
        self.reader = cell(width, 2 * width, rngs) if kind == "rnn" else None
        self.asked = Linear(width, width, rngs=rngs)
        self.hidden = Linear(2 * width, width, rngs=rngs) if kind == "rnn" else None
        self.output = Linear(width, symbols, rngs=rngs)

    def __call__(self, keys: Tokens, values: Tokens, query: Int[Array, "B"]) -> Float[Array, "B C"]:
        pairs, asked = (self.keys[...][keys], self.values[...][values]), self.keys[...][query]
        if self.reader is None or self.hidden is None:
            context = attend(scaled_dot_scores(self.asked(asked)[:, None], pairs[0]), pairs[1])[0][:, 0]
            return self.output(context)
        _, last = over(self.reader, jnp.concatenate(pairs, axis=-1))
        joined = jnp.concatenate([last["hidden"], self.asked(asked)], axis=-1)
        return self.output(jax.nn.relu(self.hidden(joined)))


def fitted(
    make: Any, examples: Any, key: Key[Array, ""], *, steps: int, batch_size: int, rate: float
) -> dict[str, Any]:
    """Trains a model and returns its "accuracy" on new examples, and "parameters".

    ``examples(key, count)`` returns (arguments, labels).
    """

    def loss(module: Any, batch: Any) -> Float[Array, ""]:
        given, wanted = batch
        return optax.softmax_cross_entropy_with_integer_labels(module(*given), wanted).mean()

    trained, tested = jax.random.split(key)
    draw = lambda key: examples(key, batch_size)
    structure, parameters, _ = fit(make, loss, draw, trained, steps=steps, learning_rate=rate)
    given, wanted = examples(tested, TEST)
    scores = jax.jit(lambda parameters, given: structure.merge(parameters)(*given))(parameters, given)
    count = sum(array.size for array in parameters.values())
    return {"accuracy": float(jnp.mean(jnp.argmax(scores, axis=-1) == wanted)), "parameters": count}


def measure_copying(
    *, width: int, lengths: tuple[int, ...], symbols: int, steps: int, batch_size: int, rate: float, seed: int, **_: Any
) -> dict[str, Any]:
    """Measures copying through a state of `width`.

    "accuracies" is a list by length, "half" the first length with an accuracy below one half (None if there is none),
    and "longest" the accuracy at the last length.
    """
    found = []
    for length in lengths:

        def examples(key: Key[Array, ""], count: int, length: int = length) -> Any:
            tokens = jax.random.randint(key, (count, length), 0, symbols)
            return (tokens,), tokens

        make = lambda rngs: Copier(symbols, width, rngs=rngs)
        key = jax.random.fold_in(jax.random.key(seed), length)
        found.append(fitted(make, examples, key, steps=steps, batch_size=batch_size, rate=rate)["accuracy"])
    half = next((length for length, one in zip(lengths, found, strict=True) if one < 0.5), None)
    return {"accuracies": found, "half": half, "longest": found[-1], "chance": 1 / symbols}


def measure_tagging(
    *, directions: int, tag_width: int, ahead: int, tag_length: int, symbols: int, tag_steps: int, batch_size: int,
    rate: float, seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns "accuracy" on the symbol `ahead` positions later, "parameters" and "chance"."""

    def examples(key: Key[Array, ""], count: int) -> Any:
        tokens = jax.random.randint(key, (count, tag_length + ahead), 0, symbols)
        return (tokens,), jnp.concatenate([tokens[:, ahead:], tokens[:, -ahead:]], axis=1)

    make = lambda rngs: Tagger(symbols, tag_width, directions, rngs=rngs)
    found = fitted(make, examples, jax.random.key(seed), steps=tag_steps, batch_size=batch_size, rate=rate)
    return {**found, "chance": 1 / symbols}


def measure_pairs(
    *, memory: str, pairs: tuple[int, ...], symbols: int, width: int, steps: int, batch_size: int, rate: float,
    seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns "accuracies" by number of pairs, and "most", the last of them. The memory "table" is a Python dict."""
    found = []
    for count in pairs:

        def examples(key: Key[Array, ""], rows: int, count: int = count) -> Any:
            first, second, third = jax.random.split(key, 3)
            keys = jax.vmap(lambda key: jax.random.permutation(key, symbols)[:count])(jax.random.split(first, rows))
            values = jax.random.randint(second, (rows, count), 0, symbols)
            asked = jax.random.randint(third, (rows, 1), 0, count)
            return (keys, values, _at(keys, asked)), _at(values, asked)

        key = jax.random.fold_in(jax.random.key(seed), count)
        if memory == "table":
            (keys, values, asked), wanted = (jax.device_get(x) for x in examples(key, TEST))
            right = [dict(zip(k, v, strict=True))[q] == w for k, v, q, w in
                     zip(keys.tolist(), values.tolist(), asked.tolist(), wanted.tolist(), strict=True)]  # fmt: skip
            found.append(sum(right) / TEST)
            continue
        make = lambda rngs: Memory(memory, symbols, width, rngs=rngs)
        found.append(fitted(make, examples, key, steps=steps, batch_size=batch_size, rate=rate)["accuracy"])
    return {"accuracies": found, "most": found[-1], "chance": 1 / symbols}


def _at(x: Tokens, places: Int[Array, "B 1"]) -> Int[Array, "B"]:
    return jnp.take_along_axis(x, places, axis=1)[:, 0]
