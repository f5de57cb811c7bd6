"""How a network's loss depends on the batch size that it is trained with, by the norm inside it.

Batch norm (Ioffe & Szegedy 2015, arXiv 1502.03167) estimates each feature's mean and variance from the batch, so that
a small one adds noise; in use it reads running averages instead (algorithm 2). Layer norm (Ba et al. 2016) knows of one
sample alone. Wu & He 2018 (arXiv 1803.08494, figure 1) print the error of image classifiers by batch size: batch norm's
rises as the batch shrinks, theirs does not.

The network: dense layers of ReLUs with a norm, gain and bias before each ReLU, fitted by Adam to a fixed random network
of tanh units. Every batch size sees as many samples, so a small one makes more updates. Errors are of test samples,
the mean squared error as a share of the target's variance, at the best of several learning rates on validation samples.
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
#: What a running average keeps of itself at each update.
DECAY = 0.99
#: Samples that an error is over, of validation and of the test.
TEST = 4096
EPSILON = 1e-6

Weights = dict[str, Array]
#: (means, variances) of each hidden layer's features, [L D].
Statistics = tuple[Float[Array, "L D"], Float[Array, "L D"]]


def draw_weights(key: Key[Array, ""], width: int) -> Weights:
    """He et al.'s normal kernels; gain one, bias zero."""
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
    """(outputs, the batch's statistics by layer); batch norm reads `kept` instead of the batch's where it is given."""
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
    """x -> tanh(x A) b with outputs of variance near one."""
    first, second = jax.random.split(key)
    return 2 * jax.random.normal(first, (width, width)) * width**-0.5, jax.random.normal(second, (width,)) * width**-0.5


def teach(teacher: tuple[Array, Array], x: Float[Array, "B D"]) -> Float[Array, "B"]:
    """The teacher's outputs."""
    return jnp.tanh(x @ teacher[0]) @ teacher[1]


def train_errors(
    key: Key[Array, ""], *, norm: str, width: int, batch_size: int, samples: int, rates: Sequence[float]
) -> Float[np.ndarray, "R 2 2"]:
    """By learning rate, all from one start and on the same samples: of validation and of test samples, the error with
    running averages and with the samples' own statistics (the same for layer norm)."""
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
    """By batch size, lists: "losses" with what the norm reads in use, "own_losses" with the test samples' own
    statistics, each at the best rate by the same loss of validation samples; "loss_ratio" of the smallest batch to the
    largest. None where no learning rate ends in a finite loss."""
    key = jax.random.key(seed)
    settings: dict[str, Any] = {"norm": norm, "width": width, "samples": trained_samples, "rates": rates}
    found = [train_errors(key, batch_size=size, **settings) for size in batch_sizes]
    losses, own = ([at_best(*errors[:, :, column].T) for errors in found] for column in (0, 1))
    ratio = None if losses[0] is None or losses[-1] is None else losses[0] / losses[-1]
    return {"losses": losses, "own_losses": own, "loss_ratio": ratio}
