"""The loss of a network by the batch size of its training, with batch norm and with layer norm.

Batch norm (Ioffe & Szegedy 2015, arXiv 1502.03167) estimates the mean and variance of each feature from the batch, so a
small batch adds noise. At inference it uses running averages (algorithm 2). Layer norm (Ba et al. 2016) uses a single
sample. Wu & He 2018 (arXiv 1803.08494, figure 1) report the error of image classifiers by batch size: with batch norm
it rises as the batch shrinks, with their group norm it does not.

The network consists of dense layers with a norm, gain and bias before each ReLU. It is fitted by Adam to a fixed random
network of tanh units. All batch sizes see the same number of samples, so smaller batches make more updates. The error
is the mean squared error on test samples divided by the variance of the target, at the best of several learning rates
on validation samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from attention_research.training.fitting import adam, at_best, descend_with_state

from .formulas import NORMS

LAYERS = 3
#: The decay of the running averages at each update.
DECAY = 0.99
#: The number of samples for an error, in validation and in the test.
TEST = 4096
EPSILON = 1e-6

Weights = dict[str, Array]
#: (means, variances) of the features of each hidden layer, [L D].
Statistics = tuple[Float[Array, "L D"], Float[Array, "L D"]]


def draw_weights(key: Key[Array, ""], width: int) -> Weights:
    """Initializes kernels by He et al.'s normal distribution, gains by one and biases by zero."""
    normal = jax.nn.initializers.he_normal(batch_axis=0)
    return {
        "hidden": normal(key, (LAYERS, width, width)),
        "gain": jnp.ones((LAYERS, width)),
        "bias": jnp.zeros((LAYERS, width)),
        "output": jnp.zeros(width),
    }


def apply(
    weights: Weights, x: Float[Array, "B D"], norm: str, kept: Statistics | None = None
) -> tuple[Float[Array, "B"], Statistics]:
    """Returns (outputs, statistics of the batch by layer). If `kept` is given, batch norm uses it instead."""
    means, variances = [], []
    for layer in range(LAYERS):
        y = x @ weights["hidden"][layer]
        means.append(jnp.mean(y, axis=0))
        variances.append(jnp.var(y, axis=0))
        if norm == "batch_norm" and kept is not None:
            y = (y - kept[0][layer]) * jax.lax.rsqrt(kept[1][layer] + EPSILON)
        else:
            y = NORMS[norm](y, epsilon=EPSILON)
        x = jax.nn.relu(y * weights["gain"][layer] + weights["bias"][layer])
    return x @ weights["output"], (jnp.stack(means), jnp.stack(variances))


def draw_teacher(key: Key[Array, ""], width: int) -> tuple[Array, Array]:
    """Draws A and b of the function x -> tanh(x A) b, whose outputs have a variance near one."""
    first, second = jax.random.split(key)
    return 2 * jax.random.normal(first, (width, width)) * width**-0.5, jax.random.normal(second, (width,)) * width**-0.5


def teach(teacher: tuple[Array, Array], x: Float[Array, "B D"]) -> Float[Array, "B"]:
    """Returns the outputs of the teacher network."""
    return jnp.tanh(x @ teacher[0]) @ teacher[1]


def train_errors(
    key: Key[Array, ""], *, norm: str, width: int, batch_size: int, samples: int, rates: Sequence[float]
) -> Float[np.ndarray, "R 2 2"]:
    """For each learning rate, the errors on validation and test samples, with running averages and with the statistics
    of the samples themselves.

    Both errors are equal for layer norm. All learning rates use the same initialization and the same samples.
    """
    start, taught, draws, tested, validated = jax.random.split(key, 5)
    teacher = draw_teacher(taught, width)
    steps = samples // batch_size

    def trained(rate: Array) -> Array:
        def error(weights: Weights, kept: Statistics, key: Array) -> tuple[Array, Statistics]:
            x = jax.random.normal(key, (batch_size, width))
            y, statistics = apply(weights, x, norm)
            kept = jax.tree.map(lambda old, new: DECAY * old + (1 - DECAY) * new, kept, statistics)
            return jnp.mean(jnp.square(y - teach(teacher, x))), kept

        optimizer = optax.chain(adam(optax.cosine_decay_schedule(1.0, steps)), optax.scale(rate))
        at_start = (jnp.zeros((LAYERS, width)), jnp.ones((LAYERS, width)))
        inputs = jax.random.split(draws, steps)
        weights, kept, _ = descend_with_state(error, draw_weights(start, width), at_start, inputs, optimizer)

        def held_out(key: Array) -> Array:
            x = jax.random.normal(key, (TEST, width))
            wanted = teach(teacher, x)
            outputs = (apply(weights, x, norm, kept)[0], apply(weights, x, norm)[0])
            return jnp.stack([jnp.mean(jnp.square(y - wanted)) / jnp.var(wanted) for y in outputs])

        return jnp.stack([held_out(validated), held_out(tested)])

    return np.asarray(jax.jit(jax.vmap(trained))(jnp.asarray(rates, jnp.float32)), np.float64)


def measure_batch_sizes(
    *, norm: str, width: int, batch_sizes: Sequence[int], trained_samples: int, rates: Sequence[float], seed: int,
    **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Returns lists by batch size, and the ratio of the smallest to the largest batch.

    "losses" uses the running averages and "own_losses" the statistics of the test samples themselves, each at the best
    learning rate by the same loss on validation samples. "loss_ratio" is the loss of the smallest batch size divided by
    that of the largest. A value is None if no learning rate ends with a finite loss.
    """
    key = jax.random.key(seed)
    settings: dict[str, Any] = {"norm": norm, "width": width, "samples": trained_samples, "rates": rates}
    found = [train_errors(key, batch_size=size, **settings) for size in batch_sizes]
    losses, own = ([at_best(*errors[:, :, column].T) for errors in found] for column in (0, 1))
    ratio = None if losses[0] is None or losses[-1] is None else losses[0] / losses[-1]
    return {"losses": losses, "own_losses": own, "loss_ratio": ratio}
