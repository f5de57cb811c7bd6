"""The pure train step (state, batch) -> (state, metrics). It works on one device, on a mesh, with replicas and with
pmap.

The state is {"step", "seed", "parameters", "statistics", "optimizer"}, with flat dictionaries of arrays. The random key
of a step is a function of seed and step, so a resumed run draws the same random numbers as an uninterrupted one.

The loss of a task may return new running statistics under "updates" (`layers.running_statistics`). They replace the old
ones. If the batch is split into accumulation parts or over pmap devices, their mean over these shares is taken.
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
from attention_research.training.named_arrays import NamedArrays

State = dict[str, Any]
Metrics = dict[str, jax.Array]
INITIALIZATION, DROPOUT = 0, 1


def initial_state(
    make: Callable[[nnx.Rngs], Any], optimizer: optax.GradientTransformation
) -> Callable[[jax.Array], State]:
    """The function seed -> state at step 0. It can be jitted with shardings, and mapped over seeds."""

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
    """The state at step 0 with these arrays, which are newly initialized or loaded from another run."""
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
    """The function that performs one update.

    The loss is the sum over all non-padding tokens of the global batch, divided by their number. On a mesh the arrays
    are already global. Under pmap (`axis_name`), sums are taken over the devices, and each device draws its own dropout
    mask.

    With `accumulation_steps`, the batch is processed in this number of parts, each with its own dropout mask. The
    losses and gradients of the parts are divided by the number of tokens of the whole batch, so the update is that of
    the whole batch.
    """

    def over_devices(x: Any) -> Any:
        return x if axis_name is None else jax.lax.psum(x, axis_name)

    def counted(batch: Mapping[str, jax.Array]) -> jax.Array:
        """The count of the whole batch. `task.count` is at least 1, but a device without items has none: its count does
        not grow if its rows are there twice."""
        count = task.count(batch)
        if axis_name is None:
            return count
        twice = {name: jnp.concatenate([x, x]) for name, x in batch.items()}
        return jnp.maximum(over_devices(task.count(twice) - count), 1.0)

    def train_step(state: State, batch: Mapping[str, jax.Array]) -> tuple[State, Metrics]:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(state["seed"]), DROPOUT), state["step"])
        if axis_name is not None:
            key = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
        batch = NamedArrays(batch)
        count = counted(batch)

        def differentiated(batch: Mapping[str, jax.Array], key: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
            def loss(parameters: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
                model = structure.merge(gathered_but_stacks(parameters), state["statistics"])
                total, sums = task.loss(model, NamedArrays(batch), key)
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
    """Replaces the running statistics by their updates, which are sums over `shares` and are divided by it.

    Raises KeyError while tracing if the names, shapes or dtypes of the updates do not match.
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
    """The sum of `function(part, key of the part)` over the parts of a batch, computed sequentially by `lax.scan`.

    Part i consists of the rows i, i + parts, ... If the rows are distributed over devices, each device holds an equal
    share of every part.

    >>> batch = {"x": jnp.arange(6.0)}
    >>> print(accumulated(lambda part, key: (part["x"] ** 2).sum(), batch, jax.random.key(0), parts=3))
    55.0
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
