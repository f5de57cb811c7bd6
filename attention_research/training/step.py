"""The pure train step: (state, batch) -> (state, metrics), for one device, a mesh, replicas or pmap alike.

The state is {"step", "seed", "parameters", "statistics", "optimizer"}, flat dictionaries of arrays. Its random key is a
function of seed and step, so that a resumed run draws what an uninterrupted one would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from attention_research.layers.structure import Structure, initializer

State = dict[str, Any]
Metrics = dict[str, jax.Array]
INITIALIZATION, DROPOUT = 0, 1


def initial_state(
    make: Callable[[nnx.Rngs], Any], optimizer: optax.GradientTransformation
) -> Callable[[jax.Array], State]:
    """seed -> the state at step 0; to be run under `jax.jit`, with shardings, or mapped over seeds."""

    def start(seed: jax.Array) -> State:
        key = jax.random.fold_in(jax.random.key(seed), INITIALIZATION)
        parameters, statistics = initializer(make)(key)
        return {
            "step": jnp.zeros((), jnp.int32),
            "seed": jnp.asarray(seed, jnp.int32),
            "parameters": parameters,
            "statistics": statistics,
            "optimizer": optimizer.init(parameters),
        }

    return start


def make_train_step(
    structure: Structure,
    task: Any,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    *,
    axis_name: str | None = None,
) -> Callable[[State, Mapping[str, jax.Array]], tuple[State, Metrics]]:
    """One update. The loss is the sum over all real tokens of the global batch divided by their number: on a mesh the
    arrays are global already; under pmap (`axis_name`) sums cross the axis and each device draws its own dropout."""

    def over_devices(x: Any) -> Any:
        return x if axis_name is None else jax.lax.psum(x, axis_name)

    def train_step(state: State, batch: Mapping[str, jax.Array]) -> tuple[State, Metrics]:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(state["seed"]), DROPOUT), state["step"])
        if axis_name is not None:
            key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
        count = over_devices(task.count(batch))

        def loss(parameters: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
            model = structure.merge(parameters, state["statistics"])
            total, sums = task.loss(model, batch, key)
            return total / count, sums

        (value, sums), gradients = jax.value_and_grad(loss, has_aux=True)(state["parameters"])
        value, sums, gradients = over_devices((value, sums, gradients))
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            updates, optimizer_state = optimizer.update(gradients, state["optimizer"], state["parameters"])
            parameters = optax.apply_updates(state["parameters"], updates)
            metrics = {
                "loss": value,
                **{name: total / count for name, total in sums.items()},
                "tokens": count,
                "gradient_norm": optax.tree.norm(gradients),
                "learning_rate": jnp.asarray(schedule(state["step"]), jnp.float32),
            }
        after = {**state, "step": state["step"] + 1, "parameters": parameters, "optimizer": optimizer_state}
        return after, metrics

    return train_step
