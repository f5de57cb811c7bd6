"""Similarity of the vectors of a sequence by depth (Dong, Cordonnier & Loukas 2021, arXiv 2103.03404).

The residual of a matrix X [T D] is its distance from the nearest matrix whose rows are all equal,

    res(X) = X - 1 x^T,   x = argmin |X - 1 x^T|,   the mean over positions in the Frobenius norm,

and is divided by |X| here (the paper uses other norms). In a stack of attention layers alone it decreases to 0 doubly
exponentially; in float32 its precision ends at about 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.analysis.position_probe import layer_states
from attention_research.analysis.teacher_forced import untrained
from attention_research.layers.attention.standard import StandardAttention
from attention_research.layers.block import Block
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.models.sequences import sequence
from attention_research.training.evaluation import Trained

#: The vectors of a sequence count as alike if their distance from the mean is below this share of their norm.
ALIKE = 0.01


def distance_to_mean(x: Float[Array, "*B T D"]) -> Float[Array, "*B"]:
    """Computes `|X - 1 x^T| / |X|`: 0 if all rows are equal, 1 if the rows sum to zero.

    >>> distance_to_mean(jnp.array([[[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [-1.0, -2.0]]])).tolist()
    [0.0, 1.0]
    """
    apart = x - jnp.mean(x, axis=-2, keepdims=True)
    return jnp.linalg.norm(apart, axis=(-2, -1)) / jnp.linalg.norm(x, axis=(-2, -1))


def stack_distances(
    key: Key[Array, ""], x: Float[Array, "B T D"], *, depth: int, num_heads: int, hidden_width: int | None,
    residual: bool,
) -> Float[Array, "M"]:  # fmt: skip
    """The mean distance of the input and after each of `depth` layers with random weights: M = depth + 1.

    A layer is self-attention and, with a `hidden_width`, a feed-forward network; with `residual` each has a residual
    connection. The stack has no normalization and no dropout.
    """
    width = x.shape[-1]
    children: dict[str, Callable[[nnx.Rngs], Any]] = {
        "self_attention": lambda rngs: StandardAttention(width=width, num_heads=num_heads, head_width=None, rngs=rngs)
    }
    if hidden_width is not None:
        children["feed_forward"] = lambda rngs: DenseFeedForward(width=width, hidden_width=hidden_width, rngs=rngs)
    steps = tuple((layer, "residual") if residual else (layer,) for layer in children)

    def layer(x: Array, key: Array) -> tuple[Array, Array]:
        block = Block(steps=steps, children=children, dropout_rate=0.0, rngs=nnx.Rngs(key))
        y, _ = block(x, {})
        return y, jnp.mean(distance_to_mean(y))

    _, distances = jax.lax.scan(layer, x, jax.random.split(key, depth))
    return jnp.concatenate([jnp.mean(distance_to_mean(x))[None], distances])


def measure_stack(
    *, num_heads: int, hidden_width: int | None, residual: bool, depth: int, width: int, tokens: int, sequences: int,
    seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Measures a stack with random weights on random vectors.

    "distances" is the list by depth, beginning with the input, "distance" its last value, and "alike" the first depth
    with a distance below `ALIKE` (None if there is none).
    """
    first, second = jax.random.split(jax.random.key(seed))
    x = jax.random.normal(first, (sequences, tokens, width))
    sizes: dict[str, Any] = {"depth": depth, "num_heads": num_heads, "hidden_width": hidden_width, "residual": residual}
    found = np.asarray(jax.jit(lambda key, x: stack_distances(key, x, **sizes))(second, x), np.float64)
    alike = next((depth for depth, distance in enumerate(found) if distance < ALIKE), None)
    return {"distances": found.tolist(), "distance": float(found[-1]), "alike": alike}


def measure_states(*, workdir: Path, seed: int, examples: int | None = None, **_: Any) -> dict[str, Any]:
    """Measures a trained language model on test text.

    "accuracy" is the share of next tokens that get the highest probability. "distances" is the list by layer, beginning
    with the embeddings, "distance" its last value, and "distances_untrained" the list before training.
    """
    del seed
    trained = Trained(workdir)

    @jax.jit
    def of(arrays: Any, batch: Any) -> tuple[Array, Array, Array]:
        model, tokens = trained.trainer.structure.merge(*arrays), sequence(batch, "target")["tokens"]
        states = layer_states(model, batch)
        last = states[-1] if model.decoder.final_norm is None else model.decoder.final_norm(states[-1])
        right = jnp.argmax(model.vocabulary.log_probabilities(last), axis=-1) == tokens
        return right & (tokens != 0), tokens != 0, distance_to_mean(states)

    found = {}
    for name, arrays in (("untrained", untrained(trained)), ("trained", trained.model())):
        right, real, distances = 0, 0, []
        for ids, batch in trained.data.evaluation_batches("test", 32, examples=examples):
            hits, there, apart = (np.asarray(part) for part in of(arrays, batch))
            right, real = right + int(hits[ids >= 0].sum()), real + int(there[ids >= 0].sum())
            distances.append(apart[:, ids >= 0])
        found[name] = np.concatenate(distances, axis=1).mean(axis=1).tolist()
    return {
        "accuracy": right / real,
        "distances": found["trained"],
        "distance": found["trained"][-1],
        "distances_untrained": found["untrained"],
    }
