"""The weights of basic self-attention, softmax(X X^T) X, and the similarity of its outputs, on vectors of an encoder.

A weight depends on the dot product |x_i| |x_j| cos(x_i, x_j), so a token ranks the others by direction and by length.
The ranks of the weights are compared with those of the cosines, for the word vectors of the encoder, for the input of
its first layer and for the output of each layer. For comparison, the same is done for the encoder's own learned weights
over these states, averaged over heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attention_research.data import sources
from attention_research.tokens import BOS
from attention_research.weights import Loaded, load
from attention_research.weights.packaged import folder_of

from ..static_attention.token_weights import rank_correlation


def basic(x: Float[np.ndarray, "T D"]) -> tuple[Float[np.ndarray, "T D"], Float[np.ndarray, "T T"]]:
    """Returns (`softmax(X X^T) X`, the weights) in float64."""
    x = np.asarray(x, np.float64)
    scores = x @ x.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ x, weights


def cosines(x: Float[np.ndarray, "T D"], y: Float[np.ndarray, "S D"]) -> Float[np.ndarray, "T S"]:
    """The cosines of each row of x with each row of y."""
    unit = lambda z: z / np.linalg.norm(z, axis=1, keepdims=True)
    return unit(np.asarray(x, np.float64)) @ unit(np.asarray(y, np.float64)).T


def agreement(weights: Float[np.ndarray, "T T"], x: Float[np.ndarray, "T D"]) -> float:
    """Spearman's rank correlation of a token's weights on the other tokens with its cosines with them, averaged over
    tokens."""
    near, others = cosines(x, x), ~np.eye(len(x), dtype=bool)
    return float(np.mean([rank_correlation(weights[i][row], near[i][row]) for i, row in enumerate(others)]))


def pulled(x: Float[np.ndarray, "T D"]) -> dict[str, float]:
    """Measures the effect of basic attention on the tokens: "before" and "after" are the mean cosines of two tokens in
    the input and in the output; "own" is the mean weight of a token on itself."""
    y, weights = basic(x)
    others = ~np.eye(len(x), dtype=bool)
    before, after = (float(cosines(z, z)[others].mean()) for z in (x, y))
    return {"before": before, "after": after, "own": float(np.diag(weights).mean())}


def states_of(
    loaded: Loaded, parameters: Any, rows: Sequence[Sequence[int]]
) -> tuple[Float[np.ndarray, "M E T D"], Float[np.ndarray, "L E T T"]]:
    """Returns (word vectors, input of the first layer and output of each layer; weights of each layer, averaged over
    heads)."""

    @jax.jit
    def run(tokens: Array) -> tuple[Array, Array]:
        model = loaded.structure.merge(parameters)
        words = model.vocabulary.source(tokens)
        first = model.encoder.positions(words, jnp.arange(tokens.shape[1], dtype=jnp.int32)[None])
        aux = model.encode({"tokens": tokens})["aux"].values()
        hidden = jnp.concatenate([words[None], first[None], *(part["hidden"] for part in aux)])
        return hidden, jnp.concatenate([part["self_attention"]["attention_weights"] for part in aux]).mean(axis=2)

    hidden, weights = run(jnp.asarray(rows, jnp.int32))
    return np.asarray(hidden), np.asarray(weights)


def measure_parallel(
    *, checkpoint: str, trained: bool, news: str, stories: int, longest: int, seed: int, **_: Any
) -> dict[str, Any]:
    """Returns lists over vectors (words, input, each layer).

    "agreement" is that of the weights of basic attention with the cosines; the values of `pulled` follow. "learned" is
    the agreement of the weights of the layer that reads the vectors, beginning with the input. Names that begin with
    "words_" are the values for the word vectors. The seed chooses the stories.
    """
    sources.prepare(news)
    loaded = load(folder_of(checkpoint))
    there, tokenizer = sources.open_split(news, "test"), loaded.tokenizer()
    order = np.random.default_rng(seed).permutation(len(there))
    rows = [[BOS, *ids[: longest - 1]] for ids in tokenizer.encode([there[int(i)]["text"] for i in order[:stories]])]
    parameters = loaded.parameters if trained else loaded.drawn(seed)
    states, weights = states_of(loaded, parameters, [row for row in rows if len(row) == longest])
    found: dict[str, list[float]] = {name: [] for name in ("agreement", "before", "after", "own")}
    for layer in states:
        found["agreement"].append(float(np.mean([agreement(basic(x)[1], x) for x in layer])))
        parts = [pulled(x) for x in layer]
        for name in parts[0]:
            found[name].append(float(np.mean([part[name] for part in parts])))
    learned = [
        float(np.mean([agreement(w, x) for w, x in zip(maps, layer, strict=True)]))
        for maps, layer in zip(weights, states[1:-1], strict=True)
    ]
    return {**found, "learned": learned, **{f"words_{name}": values[0] for name, values in found.items()}}
