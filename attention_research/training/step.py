"""The pure train step: (state, batch) -> (state, metrics), for one device, a mesh, replicas or pmap alike.

The state is {"step", "seed", "parameters", "statistics", "optimizer"}, flat dictionaries of arrays. Its random key is a
function of seed and step, so that a resumed run draws what an uninterrupted one would have drawn.

What a task's loss reports beside its sums under "updates" takes the place of the running statistics
(`layers.running_statistics`): the mean over the parts of the batch and the devices that each had moments of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from attention_research.layers.running_statistics import UPDATES
from attention_research.layers.structure import Structure, initializer
from attention_research.parallel.scope import gathered_but_stacks
from attention_research.tasks.protocol import Task
from attention_research.training.health import finite

State = dict[str, Any]
Metrics = dict[str, jax.Array]
INITIALIZATION, DROPOUT = 0, 1


def initial_state(
    make: Callable[[nnx.Rngs], Any], optimizer: optax.GradientTransformation
) -> Callable[[jax.Array], State]:
    """seed -> the state at step 0; to be run under `jax.jit`, with shardings, or mapped over seeds."""

    def start(seed: jax.Array) -> State:
        key = jax.random.fold_in(jax.random.key(seed), INITIALIZATION)
        return state_at_0(seed, *initializer(make)(key), optimizer)

    return start


def state_at_0(
    seed: jax.Array,
    parameters: dict[str, jax.Array],
    statistics: dict[str, jax.Array],
    optimizer: optax.GradientTransformation,
) -> State:
    """The state at step 0 with these arrays, fresh ones or those of another run."""
    return {
        "step": jnp.zeros((), jnp.int32),
        "seed": jnp.asarray(seed, jnp.int32),
        "parameters": parameters,
        "statistics": statistics,
        "optimizer": optimizer.init(parameters),
    }


def make_train_step(
    structure: Structure,
    task: Task[Any],
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    *,
    accumulation_steps: int = 1,
    axis_name: str | None = None,
) -> Callable[[State, Mapping[str, jax.Array]], tuple[State, Metrics]]:
    """One update. The loss is the sum over all non-padding tokens of the global batch divided by their number: on a
    mesh the arrays are global already; under pmap (`axis_name`) sums cross the axis and each device draws its own
    dropout.

    With `accumulation_steps` the batch goes through the model in that many parts, each with dropout of its own; what
    their losses and gradients are divided by is the whole batch's number of tokens, so that the update is the same.
    """

    def over_devices(x: Any) -> Any:
        return x if axis_name is None else jax.lax.psum(x, axis_name)

    def train_step(state: State, batch: Mapping[str, jax.Array]) -> tuple[State, Metrics]:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(state["seed"]), DROPOUT), state["step"])
        if axis_name is not None:
            key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
        count = over_devices(task.count(batch))

        def differentiated(batch: Mapping[str, jax.Array], key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
            def loss(parameters: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
                model = structure.merge(gathered_but_stacks(parameters), state["statistics"])
                total, sums = task.loss(model, batch, key)
                return total / count, sums

            return jax.value_and_grad(loss, has_aux=True)(state["parameters"])

        (value, sums), gradients = over_devices(accumulated(differentiated, batch, key, accumulation_steps))
        shares = accumulation_steps * (1 if axis_name is None else jax.lax.axis_size(axis_name))
        statistics = replaced(structure.running, state["statistics"], sums.pop(UPDATES, {}), shares)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes
            updates, optimizer_state = optimizer.update(gradients, state["optimizer"], state["parameters"])
            parameters = optax.apply_updates(state["parameters"], updates)
            metrics = {
                "loss": value,
                **{name: total / count for name, total in sums.items()},
                "tokens": count,
                "gradient_norm": optax.tree.norm(gradients),
                "finite_gradients": finite(gradients),
                "learning_rate": jnp.asarray(schedule(state["step"]), jnp.float32),
            }
        after = {**state, "step": state["step"] + 1, "parameters": parameters, "optimizer": optimizer_state}
        return {**after, "statistics": statistics}, metrics

    return train_step


def replaced(
    running: Collection[str], statistics: Mapping[str, jax.Array], summed: Mapping[str, jax.Array], shares: int
) -> dict[str, jax.Array]:
    """The statistics with the running ones replaced by updates that are sums over `shares`.

    Raises KeyError while tracing where the updates are not of exactly these names, shapes or dtypes.
    """
    if summed.keys() != set(running):
        missing, extra = sorted(set(running) - summed.keys()), sorted(summed.keys() - set(running))
        raise KeyError(f"updates: missing {missing or 'nothing'}, unexpected {extra or 'nothing'}")
    for name, new in summed.items():
        old = statistics[name]
        if (new.shape, new.dtype) != (old.shape, old.dtype):
            raise KeyError(f"updates: {name} is {new.dtype}{list(new.shape)}, not {old.dtype}{list(old.shape)}")
    return {**statistics, **{name: new / shares for name, new in summed.items()}}


def accumulated(
    function: Callable[[Mapping[str, jax.Array], jax.Array], Any],
    batch: Mapping[str, jax.Array],
    key: jax.Array,
    parts: int,
) -> Any:
    """The sum of `function(part, key of the part)` over the parts of a batch, one after the other by `lax.scan`.

    Part i is the rows i, i + parts, ...: where rows lie on several devices, each device has its share of every part.
    """
    if parts == 1:
        return function(batch, key)

    def split(x: jax.Array) -> jax.Array:
        return jnp.moveaxis(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 1, 0)

    def add(total: Any, part: tuple[Mapping[str, jax.Array], jax.Array]) -> tuple[Any, None]:
        rows, number = part
        return jax.tree.map(jnp.add, total, function(rows, jax.random.fold_in(key, number))), None

    split_batch = {name: split(x) for name, x in batch.items()}
    one = jax.eval_shape(function, {name: x[0] for name, x in split_batch.items()}, key)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), one)
    return jax.lax.scan(add, zeros, (split_batch, jnp.arange(parts)))[0]
