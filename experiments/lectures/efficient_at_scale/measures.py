"""Full and efficient attention on real text: the loss by model size, and by context length at fixed compute.

Compute is counted on the program of one update (`accounting.flops`, matrix products, forward and backward). A model
with a longer context reads fewer and longer rows, so that training costs the same at all contexts. All models are
tested on the same text, cut into rows of the model's context length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from attention_research.accounting.flops import count_flops
from attention_research.config import build, load
from attention_research.layers.structure import abstract
from attention_research.training.fitting import fit

from .models import TextModel, losses, mean_loss

CONFIG = "configs/language_modelling/transformer.py:cpu"
#: The number of tokens of a batch for the test loss.
TOGETHER = 8192


class Text(NamedTuple):
    """Token ids of the training and the test split, with all documents concatenated, and the size of the vocabulary.

    The last id of the vocabulary is the mask token, which does not occur in the text.
    """

    train: Int[np.ndarray, "N"]
    test: Int[np.ndarray, "M"]
    size: int


def open_text(name: str, vocabulary_size: int, tokenizer: str) -> Text:
    """Opens a TFDS data set of texts with a kind of tokenizer."""
    section = {"data.name": name, "vocabulary_size": vocabulary_size, "data.tokenizer": {"kind": tokenizer}}
    data = build(load(CONFIG).override(list(section.items())).resolved["data"], "data")().prepare()
    chunks = [data.chunks(split) for split in ("train", "test")]
    joined = [np.concatenate([split[number] for number in range(len(split))]) for split in chunks]
    train, test = (tokens.astype(np.int32) for tokens in joined)
    return Text(train, test, data.tokenizer.size + 1)


def maker(kind: str, text: Text, size: Sequence[int], length: int, model: Mapping[str, Any]) -> Any:
    """Returns a function from rngs to a model of the given size (layers, width)."""
    layers, width = size
    sizes: dict[str, Any] = {"vocabulary_size": text.size, "num_layers": layers, "width": width, "length": length}
    return lambda rngs: TextModel(kind, **sizes, **model, rngs=rngs)


def step_flops(kind: str, make: Any, rows: int, length: int) -> int:
    """The FLOPs of the loss and the gradient of one update."""
    structure, arrays, _ = abstract(make)
    batch, key = jax.ShapeDtypeStruct((rows, length + 1), jnp.int32), jax.eval_shape(lambda: jax.random.key(0))
    gradient = jax.grad(lambda p, batch, key: mean_loss(structure.merge(p), kind, batch, key))
    return count_flops(gradient, arrays, batch, key).matmul


def trained_loss(
    kind: str, make: Any, text: Text, *, length: int, rows: int, steps: int, rate: float, tested: int, seed: int
) -> float:
    """Trains a model and returns its mean cross-entropy, in nats, on the first `tested` tokens of the test split.

    The tokens are cut into rows of `length`.
    """
    train = jnp.asarray(text.train)

    def draw(key: Array) -> tuple[Array, Array]:
        starts, hidden = jax.random.split(key)
        first = jax.random.randint(starts, (rows, 1), 0, len(text.train) - length)
        return train[first + jnp.arange(length + 1)], hidden

    loss = lambda model, batch: mean_loss(model, kind, *batch)
    structure, parameters, _ = fit(make, loss, draw, jax.random.key(seed), steps=steps, learning_rate=rate)
    run = jax.jit(lambda p, rows, key: losses(structure.merge(p), kind, rows, key))
    return held_out(lambda rows, key: run(parameters, rows, key), text.test, length, tested)


def held_out(run: Any, tokens: Int[np.ndarray, "M"], length: int, tested: int) -> float:
    """The mean of ``run(rows, key)`` [B T] over the tokens where it is not 0, for consecutive rows of the text."""
    count = min(tested, len(tokens) - 1) // length
    rows = np.stack([tokens[row * length : row * length + length + 1] for row in range(count)])
    together = max(1, TOGETHER // length)
    found: list[Float[np.ndarray, "A"]] = []
    for number, start in enumerate(range(0, count - count % together or count, together)):
        values = np.asarray(run(jnp.asarray(rows[start : start + together]), jax.random.key(number)), np.float64)
        found.append(values[values != 0])
    return float(np.concatenate(found).mean())


def measure_sizes(
    *, kind: str, text: str, vocabulary_size: int, tokenizer: str, model: Mapping[str, Any],
    scales: Sequence[Sequence[int]], length: int, batch_tokens: int, steps: int, rate: float, tested: int, seed: int,
    **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns lists by model size: "losses", "parameters" and "flops" per token; and "largest", the loss of the largest
    model."""
    there = open_text(text, vocabulary_size, tokenizer)
    found: dict[str, list[float]] = {"losses": [], "parameters": [], "flops": []}
    for size in scales:
        make, rows = maker(kind, there, size, length, model), batch_tokens // length
        more: Any = {"length": length, "rows": rows, "steps": steps, "rate": rate, "tested": tested, "seed": seed}
        found["losses"].append(trained_loss(kind, make, there, **more))
        found["parameters"].append(sum(math.prod(x.shape) for x in abstract(make)[1].values()))
        found["flops"].append(step_flops(kind, make, rows, length) / (rows * length))
    return {**found, "largest": found["losses"][-1]}


def measure_contexts(
    *, kind: str, text: str, vocabulary_size: int, tokenizer: str, model: Mapping[str, Any],
    contexts: Sequence[int], context_size: Sequence[int], compute: float, batch_tokens: int, rate: float, tested: int,
    seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Trains with `compute` FLOPs in total at each context length.

    Returns lists by context: "context_losses" and "context_tokens", the number of training tokens; and "longest", the
    loss at the longest context.
    """
    there = open_text(text, vocabulary_size, tokenizer)
    found: dict[str, list[float]] = {"context_losses": [], "context_tokens": []}
    for length in contexts:
        make, rows = maker(kind, there, context_size, length, model), max(1, batch_tokens // length)
        steps = max(1, round(compute / step_flops(kind, make, rows, length)))
        more: Any = {"length": length, "rows": rows, "steps": steps, "rate": rate, "tested": tested, "seed": seed}
        found["context_losses"].append(trained_loss(kind, make, there, **more))
        found["context_tokens"].append(steps * rows * length)
    return {**found, "longest": found["context_losses"][-1]}
