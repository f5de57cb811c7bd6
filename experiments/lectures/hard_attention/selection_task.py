"""Hard against soft attention on the lookup of `attention_layer.lookup_ladder`, with projected keys and values.

The layer reads one item, chosen by hard attention (Xu et al. 2015, section 4.1), or all items by soft attention. Hard
choices are trained by REINFORCE, without a baseline or with the mean cost of the other examples of the batch as the
baseline. With the argmax the choice is not trained: only the layers that read the chosen value learn. In tests hard
attention uses the argmax. `cost` is the cross-entropy of the class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from attention_research.kernels import attend, hard_attention
from attention_research.kernels.selection import reinforce_surrogate
from attention_research.layers.structure import abstract, initializer
from attention_research.training.fitting import fit_best

from ..attention_layer.lookup_ladder import TEST, Batch, Layer, Lookup, draw

MODES = ("soft", "argmax", "reinforce", "reinforce_baseline")

#: The number of batches for the variance of a gradient.
DRAWS = 64


class Keyed(NamedTuple):
    """A batch, and the random key for its choices."""

    batch: Batch
    key: Key[Array, ""]


def read(layer: Layer, mode: str, keyed: Keyed, *, training: bool) -> tuple[Float[Array, "B C"], Float[Array, "B"]]:
    """Returns (scores of the classes, log-probability of the choice). The latter is 0 if nothing was drawn."""
    query, memory, _ = keyed.batch
    scores = layer.scores(query[:, None], layer.key(memory))
    values = layer.value(memory)
    if mode == "soft":
        context, log_prob = attend(scores, values)[0], jnp.zeros(len(query))[:, None]
    else:
        sampled = training and mode != "argmax"
        context, _, log_prob = hard_attention(keyed.key if sampled else None, scores, values)
    return layer.classifier(context[:, 0]), log_prob[:, 0]


def costs(layer: Layer, mode: str, keyed: Keyed, *, training: bool) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
    """Returns (cross-entropy, log-probability of the choice) of each example."""
    logits, log_prob = read(layer, mode, keyed, training=training)
    return optax.softmax_cross_entropy_with_integer_labels(logits, keyed.batch.wanted), log_prob


def loss(layer: Layer, mode: str, keyed: Keyed) -> Float[Array, ""]:
    """A loss whose value is the mean cost and whose gradient is the gradient estimate of the mode."""
    cost, log_prob = costs(layer, mode, keyed, training=True)
    others = (jnp.sum(cost) - cost) / (len(cost) - 1) if mode == "reinforce_baseline" else jnp.zeros_like(cost)
    advantage = jax.lax.stop_gradient(cost - others)[:, None]
    surrogate = reinforce_surrogate(log_prob[:, None], advantage, jnp.zeros(()))[:, 0]
    return jnp.mean(cost + surrogate - jax.lax.stop_gradient(surrogate))


def measure_selection(
    *, mode: str, steps: int, batch_size: int, rates: tuple[float, ...], target: float, seed: int, **sizes: Any
) -> dict[str, Any]:
    """Trains with each of `rates` and keeps the one ("rate") with the best accuracy on validation examples.

    Returns "accuracy" on test examples; "curve", the training cost averaged over each twentieth of the updates;
    "steps", the updates until such a mean is below `target` (None: never); "variance" of the gradient of the
    projections before training, over batches and draws; and "of_squares", this variance divided by the squared mean.
    """
    lookup = Lookup(**{name: value for name, value in sizes.items() if name in Lookup._fields})
    task, trained, tested, validated = jax.random.split(jax.random.key(seed), 4)
    make = lambda rngs: Layer(lookup, "scaled_dot", "keys_values", rngs=rngs)

    def batches(key: Key[Array, ""]) -> Keyed:
        first, second = jax.random.split(key)
        return Keyed(draw(lookup, task, first, batch_size), second)

    right = lambda layer, key: _accuracy(layer, mode, Keyed(draw(lookup, task, key, TEST), key))
    train = lambda layer, keyed: loss(layer, mode, keyed)
    wrong = lambda layer: 1 - right(layer, validated)
    best = fit_best(make, train, batches, wrong, trained, steps=steps, rates=rates)
    assert best is not None  # an accuracy is always finite
    curve = np.asarray(best.losses, np.float64)
    parts = [float(part.mean()) for part in np.array_split(curve, 20)]
    there = next((place for place, cost in enumerate(parts) if cost <= target), None)
    structure, *_ = abstract(make)
    start, _ = initializer(make)(trained)
    return {
        "accuracy": right(best.module, tested),
        "rate": best.rate,
        "curve": parts,
        "steps": None if there is None else (there + 1) * steps // 20,
        **_variance(structure, start, mode, batches, tested),
    }


def _accuracy(layer: Layer, mode: str, keyed: Keyed) -> float:
    """The share of examples whose class has the highest score."""
    logits, _ = read(layer, mode, keyed, training=False)
    return float(jnp.mean(jnp.argmax(logits, axis=-1) == keyed.batch.wanted))


def _variance(structure: Any, parameters: Any, mode: str, batches: Any, key: Key[Array, ""]) -> dict[str, Any]:
    def gradient(key: Key[Array, ""]) -> Array:
        of = jax.grad(lambda p: loss(structure.merge({**parameters, **p}), mode, batches(key)))
        return of({"key.kernel": parameters["key.kernel"]})["key.kernel"].reshape(-1)

    draws = np.asarray(jax.jit(jax.vmap(gradient))(jax.random.split(key, DRAWS)), np.float64)
    variance, mean = draws.var(axis=0).sum(), float(np.square(draws.mean(axis=0)).sum())
    return {"variance": float(variance), "of_squares": float(variance / mean) if mean > 0 else None}
