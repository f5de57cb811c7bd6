"""Training of a small module on examples that are drawn as they are needed: one compiled loop, no files, no config.

For measurements that no run of the trainer gives: Adam (Kingma & Ba 2015), the rate warmed up over a tenth of the
updates and lowered to 0 by a cosine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import optax
from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.layers.structure import Arrays, Structure, abstract, initializer


def fit(
    make: Callable[[nnx.Rngs], Any],
    loss: Callable[[Any, Any], Float[Array, ""]],
    draw: Callable[[Key[Array, ""]], Any],
    key: Key[Array, ""],
    *,
    steps: int,
    learning_rate: float,
) -> tuple[Structure, Arrays, Float[Array, "U"]]:
    """(structure, trained parameters, the loss at each update) of the module that ``make(rngs)`` builds.

    ``draw(key)`` gives a batch and ``loss(module, batch)`` its mean loss; both are traced.
    """
    structure, *_ = abstract(make)
    rate = optax.warmup_cosine_decay_schedule(0.0, learning_rate, max(1, steps // 10), steps)
    optimizer = optax.adam(rate)

    def update(carry: Any, key: Array) -> tuple[Any, Array]:
        parameters, state = carry
        batch = draw(key)
        value, gradients = jax.value_and_grad(lambda p: loss(structure.merge(p), batch))(parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            changes, state = optimizer.update(gradients, state)
            return (optax.apply_updates(parameters, changes), state), value

    def run(key: Array) -> tuple[Arrays, Array]:
        first, rest = jax.random.split(key)
        parameters, _ = initializer(make)(first)
        carry = (parameters, optimizer.init(parameters))
        (parameters, _), losses = jax.lax.scan(update, carry, jax.random.split(rest, steps))
        return parameters, losses

    parameters, losses = jax.jit(run)(key)
    return structure, parameters, losses
