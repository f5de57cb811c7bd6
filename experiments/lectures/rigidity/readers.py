"""What basic self-attention, which always favours similar tokens, can learn in comparison with learned projections.

For a token x_i the reader has x_i and a context y_i. One hidden layer of ReLUs on both predicts the answer for the
token, or, averaged over tokens, the answer for the whole input. The context is one of the following:

- nothing;
- basic attention, softmax(X X^T) X;
- the same after one learned projection of X, whose scores x^T W^T W x also favour similar tokens;
- one head with learned queries, keys and values.

Only attention lets a token receive information from other tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attention_research.kernels import attend, dot_scores
from attention_research.kernels.scores import scaled_dot_scores
from attention_research.layers.linear import Linear
from attention_research.layers.pooling.average import average, normalized
from attention_research.training.fitting import fit

from ..static_attention.token_weights import rank_correlation
from .inputs import open_inputs

KINDS = ("none", "basic", "shared", "learned")
#: Task -> the function that selects the target among a token's scores with the other tokens.
WANTED = {"similar": jnp.argmax, "dissimilar": jnp.argmin}
#: The number of examples for an accuracy.
TEST = 2048


class Reader(nnx.Module):
    """A model from vectors [B T D] to answers [B T C] for each token or, if `pooled`, [B C] for the input.

    Raises ValueError for an unknown kind.
    """

    def __init__(self, kind: str, *, width: int, inner: int, hidden: int, classes: int, pooled: bool, rngs: nnx.Rngs):
        if kind not in KINDS:
            raise ValueError(f"{kind!r}: expected one of {', '.join(KINDS)}")
        self.kind, self.pooled = kind, pooled
        learned = {"shared": ("query",), "learned": ("query", "key", "value")}.get(kind, ())
        project = lambda part: Linear(width, inner, use_bias=False, rngs=rngs) if part in learned else None
        self.query, self.key, self.value = project("query"), project("key"), project("value")
        context = {"none": 0, "learned": inner}.get(kind, width)
        self.hidden = Linear(width + context, hidden, rngs=rngs)
        self.output = Linear(hidden, classes, rngs=rngs)

    def attention(
        self, x: Float[Array, "B T D"], mask: Bool[Array, "#B #T T"]
    ) -> tuple[Float[Array, "B T Dv"], Float[Array, "B T T"]]:
        """Returns (context, weights). Without attention the weights are 0."""
        if self.kind == "none":
            return x[..., :0], jnp.zeros((*x.shape[:2], x.shape[1]), x.dtype)
        if self.query is not None and self.key is not None and self.value is not None:
            return attend(scaled_dot_scores(self.query(x), self.key(x)), self.value(x), mask)
        seen = x if self.query is None else self.query(x)
        return attend(dot_scores(seen, seen), x, mask)

    def __call__(self, x: Float[Array, "B T D"], mask: Bool[Array, "#B #T T"]) -> Array:
        context, _ = self.attention(x, mask)
        hidden = jax.nn.relu(self.hidden(jnp.concatenate([x, context], axis=-1)))
        if self.pooled:
            real = jnp.broadcast_to(mask[:, 0], x.shape[:2])
            hidden = average(hidden, normalized(jnp.ones(real.shape, x.dtype), real))
        return self.output(hidden)


def draw(wanted: str, key: Key[Array, ""], rows: int, *, tokens: int, directions: int, codes: int) -> dict[str, Array]:
    """Draws "x" [B T D] and "label" [B T].

    A token consists of a direction of length sqrt(directions) and a one-hot code. Its label is the code of the other
    token with which it has the largest or the smallest dot product.
    """
    first, second = jax.random.split(key)
    ways = jax.random.normal(first, (rows, tokens, directions))
    ways = ways * directions**0.5 / jnp.linalg.norm(ways, axis=-1, keepdims=True)
    code = jax.random.randint(second, (rows, tokens), 0, codes)
    x = jnp.concatenate([ways, jax.nn.one_hot(code, codes)], axis=-1)
    worst = -jnp.inf if wanted == "similar" else jnp.inf
    scores = jnp.where(jnp.eye(tokens, dtype=bool), worst, jnp.einsum("BTD,BSD->BTS", x, x))
    return {"x": x, "label": jnp.take_along_axis(code, WANTED[wanted](scores, axis=-1), axis=1)}


def measure_unlike(
    *, kind: str, task: Mapping[str, int], sizes: Mapping[str, int], steps: int, batch_size: int, rate: float,
    seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Trains a reader on each task of `WANTED`.

    Returns the accuracy on new examples under the name of the task, and, with attention, "agreement_..." of the trained
    weights on the other tokens with the dot products. A token does not attend to itself.
    """
    others = ~jnp.eye(task["tokens"], dtype=bool)[None]
    width = task["directions"] + task["codes"]
    make = lambda rngs: Reader(kind, width=width, classes=task["codes"], pooled=False, rngs=rngs, **sizes)
    loss = lambda reader, batch: _cost(reader(batch["x"], others), batch["label"])
    found: dict[str, Any] = {}
    for number, wanted in enumerate(WANTED):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), number))
        batches = lambda key, wanted=wanted: draw(wanted, key, batch_size, **task)
        structure, parameters, _ = fit(make, loss, batches, keys[0], steps=steps, learning_rate=rate)
        reader, test = structure.merge(parameters), draw(wanted, keys[1], TEST, **task)
        right = jnp.argmax(reader(test["x"], others), axis=-1) == test["label"]
        found[wanted] = float(jnp.mean(right))
        if kind != "none":
            found[f"agreement_{wanted}"] = agreement(reader, test["x"][:64], others)
    return {**found, "parameters": float(sum(x.size for x in parameters.values()))}


def agreement(reader: Reader, x: Float[Array, "B T D"], others: Bool[Array, "1 T T"]) -> float:
    """Spearman's rank correlation of a token's weights on the others with its dot products, averaged over tokens."""
    weights = np.asarray(reader.attention(x, others)[1], np.float64)
    scores, seen = np.einsum("btd,bsd->bts", x, x), np.asarray(others[0])
    pairs = [(weights[b, t][seen[t]], scores[b, t][seen[t]]) for b in range(len(x)) for t in range(x.shape[1])]
    return float(np.mean([rank_correlation(*pair) for pair in pairs if np.ptp(pair[0]) > 0]))


def measure_inputs(
    *,
    kind: str,
    inputs: str,
    sizes: Mapping[str, int],
    steps: int,
    batch_size: int,
    rate: float,
    seed: int,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns "accuracy" on the test examples of `inputs.open_inputs`, "majority", that of the most frequent class, and
    "loss" at the end of training."""
    given = open_inputs(inputs, **more)
    make = lambda rngs: Reader(kind, width=given.width, classes=given.classes, pooled=True, rngs=rngs, **sizes)
    keys = jax.random.split(jax.random.key(seed))
    visible = lambda batch: batch["real"][:, None]
    loss = lambda reader, batch: _cost(reader(batch["x"], visible(batch)), batch["label"])
    structure, parameters, losses = fit(
        make, loss, lambda key: given.draw(key, batch_size), keys[0], steps=steps, learning_rate=rate
    )
    answer = jax.jit(lambda p, batch: jnp.argmax(structure.merge(p)(batch["x"], visible(batch)), axis=-1))
    right, labels = [], []
    for batch in given.test(keys[1]):
        right.append(np.asarray(answer(parameters, batch) == batch["label"]))
        labels.append(np.asarray(batch["label"]))
    return {
        "accuracy": float(np.concatenate(right).mean()),
        "majority": float(np.bincount(np.concatenate(labels)).max() / len(np.concatenate(labels))),
        "loss": float(losses[-max(1, steps // 20) :].mean()),
        "parameters": float(sum(x.size for x in parameters.values())),
    }


def _cost(logits: Array, label: Array) -> Float[Array, ""]:
    return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()
