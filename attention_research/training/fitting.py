"""Trains small modules and arrays for measurements that do not need a run of the trainer.

Training is one compiled loop on examples that are drawn on the fly, without files and without a config. `fit` trains a
module with Adam; the learning rate is warmed up over a tenth of the updates and then lowered to 0 by a cosine.
`fit_best` trains at several rates and keeps the best module. `descend` is the loop itself, for arrays and any
optimizer.

The examples that select a rate are separate from the training examples and from the examples of the reported numbers.
Selecting the best of several scores on the reported examples would give a result that is too good by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.structure import Arrays, Structure, abstract, initializer

#: Adam (Kingma & Ba 2015) with the defaults of optax: a learning rate or a schedule -> the optimizer.
adam = optax.adam


class Best(NamedTuple):
    """The trained `module`, its number of `parameters`, its learning `rate` and the training `losses` by update."""

    module: Any
    parameters: int
    rate: float
    losses: Float[Array, "U"]


def descend(
    loss: Callable[[Any, Any], Float[Array, ""]], weights: Any, inputs: Any, optimizer: optax.GradientTransformation
) -> tuple[Any, Float[Array, "U"]]:
    """Trains weights by gradient descent and returns (trained weights, the loss before each update).

    Each update minimizes ``loss(weights, one)``, where `one` is the next entry of `inputs` along their first axis: a
    batch, or a random key to draw one. Call this function under `jax.jit`.
    """
    with_state = lambda weights, _, one: (loss(weights, one), None)
    weights, _, losses = descend_with_state(with_state, weights, None, inputs, optimizer)
    return weights, losses


def descend_with_state(
    loss: Callable[[Any, Any, Any], tuple[Float[Array, ""], Any]],
    weights: Any,
    state: Any,
    inputs: Any,
    optimizer: optax.GradientTransformation,
) -> tuple[Any, Any, Float[Array, "U"]]:
    """`descend` for a loss with a state without gradient, such as running averages.

    ``loss(weights, state, one)`` returns (value, new state). Returns (weights, state, losses).
    """

    def update(carry: Any, one: Any) -> tuple[Any, Array]:
        weights, state, moments = carry
        (value, state), gradient = jax.value_and_grad(loss, has_aux=True)(weights, state, one)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            changes, moments = optimizer.update(gradient, moments)
            return (optax.apply_updates(weights, changes), state, moments), value

    (weights, state, _), losses = jax.lax.scan(update, (weights, state, optimizer.init(weights)), inputs)
    return weights, state, losses


def fit(
    make: Callable[[nnx.Rngs], Any],
    loss: Callable[[Any, Any], Float[Array, ""]],
    draw: Callable[[Key[Array, ""]], Any],
    key: Key[Array, ""],
    *,
    steps: int,
    learning_rate: float,
) -> tuple[Structure, Arrays, Float[Array, "U"]]:
    """Trains the module that ``make(rngs)`` builds. Returns (structure, trained parameters, the loss at each update).

    ``draw(key)`` returns a batch and ``loss(module, batch)`` its mean loss; both are traced.
    """
    structure, *_ = abstract(make)
    optimizer = adam(optax.warmup_cosine_decay_schedule(0.0, learning_rate, max(1, steps // 10), steps))

    def run(key: Array) -> tuple[Arrays, Array]:
        first, rest = jax.random.split(key)
        parameters, _ = initializer(make)(first)
        drawn = lambda parameters, key: loss(structure.merge(parameters), draw(key))
        return descend(drawn, parameters, jax.random.split(rest, steps), optimizer)

    parameters, losses = jax.jit(run)(key)
    return structure, parameters, losses


def fit_best(
    make: Callable[[nnx.Rngs], Any],
    loss: Callable[[Any, Any], Float[Array, ""]],
    draw: Callable[[Key[Array, ""]], Any],
    validate: Callable[[Any], Float[Array, ""] | float],
    key: Key[Array, ""],
    *,
    steps: int,
    rates: Sequence[float],
) -> Best | None:
    """Calls `fit` at each of `rates` with the same `key` and returns the module with the lowest ``validate(module)``.

    Of equal values the first one is taken. Returns None if no value is finite.
    """
    best, lowest = None, math.inf
    for rate in rates:
        structure, parameters, losses = fit(make, loss, draw, key, steps=steps, learning_rate=rate)
        module = structure.merge(parameters)
        value = float(validate(module))
        if math.isfinite(value) and value < lowest:
            best, lowest = Best(module, sum(x.size for x in parameters.values()), rate, losses), value
    return best


def at_best(validated: Float[np.ndarray, "..."], tested: Float[np.ndarray, "..."]) -> float | None:
    """The value of `tested` at the lowest finite value of `validated`, or None if no value is finite.

    Of equal values the first one is taken.

    >>> at_best(np.array([0.3, 0.2, np.nan]), np.array([0.1, 0.4, 0.0]))
    0.4
    >>> at_best(-np.array([[0.2, 0.9], [0.9, 0.1]]), np.array([[1.0, 0.7], [0.8, 0.0]]))
    0.7
    """
    finite = np.flatnonzero(np.isfinite(validated))
    return float(tested.ravel()[finite[np.argmin(validated.ravel()[finite])]]) if len(finite) else None
