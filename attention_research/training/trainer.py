"""Builds the model, task, data, optimizer and execution of a config, and computes losses over batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import Config, build_experiment
from attention_research.data.protocol import Data
from attention_research.layers.structure import abstract
from attention_research.parallel import hosts
from attention_research.parallel.execution import AXIS, MeshExecution, PmapExecution
from attention_research.parallel.replica_settings import scope
from attention_research.tasks.protocol import Task
from attention_research.training.named_arrays import NamedArrays
from attention_research.training.replicas import marked, member_configs, side_by_side, varied_values
from attention_research.training.step import initial_state, make_train_step


class Trainer:
    """The objects of a config: model structure, task, data, optimizer and execution. Allocates nothing until `start`.

    With replicas, the objects are those of the first replica, with a `Varied` for each number that differs; `seeds` has
    the seeds of all replicas. With `alone`, the first local device is used instead of the devices of the config, so
    that a model trained on any mesh can be read.
    """

    def __init__(self, config: Config, *, alone: bool = False):
        self.config, members = config, member_configs(config)
        self.seeds = [member.resolved["training"]["seed"] for member in members]
        self.varied = varied_values(members)
        self.parts = parts = build_experiment(marked(members[0], self.varied))
        self.make_model = lambda rngs: parts.model(rngs=rngs)
        self.settings, self.parallel = parts.training(), parts.parallel()
        self.task: Task[Any] = parts.task()
        self.data: Data = parts.data()
        self.structure, parameters, _ = abstract(self.make_model)
        self.parameters = tuple(name for name in self.structure.names if name in parameters)
        self.parameter_count = sum(x.size for x in parameters.values())
        width = config.resolved["model"].get("width")
        self.optimizer = optimizer = self.settings.optimizer(width)
        schedule = self.settings.schedule(width)
        start, parts_of_batch = initial_state(self.make_model, optimizer), self.settings.accumulation_steps
        train_step = partial(
            make_train_step, self.structure, self.task, optimizer, schedule, accumulation_steps=parts_of_batch
        )
        if self.parallel.strategy == "pmap" and not alone:
            self.step_and_start = train_step(axis_name=AXIS), start
            self.execution: Any = PmapExecution(*self.step_and_start, self.settings.seed)
        else:
            step, seeds = train_step(), self.settings.seed
            self.step_and_start = step, start
            if self.replicas > 1:
                (step, start), seeds = side_by_side(step, start, self.varied), np.asarray(self.seeds, np.int32)
            sizes = dict.fromkeys(self.parallel.mesh.sizes, 1) if alone else self.parallel.mesh.sizes
            devices = jax.devices()[:1] if alone else None
            self.execution = MeshExecution(step, start, sizes, seeds, devices=devices)
        shapes = (shape for batch in self.data.train_shapes(self.settings.batch_size) for shape in batch.values())
        self.execution.check(self.settings.batch_size, parts_of_batch, shapes)

    @property
    def replicas(self) -> int:
        """The number of replicas."""
        return len(self.seeds)

    def labels(self, replica: int) -> dict[str, int]:
        """The labels of a log line or result: the seed and, if there are several replicas, the replica."""
        return {"seed": self.seeds[replica], **({"replica": replica} if self.replicas > 1 else {})}

    def whose(self) -> list[str]:
        """The labels of every replica as text, such as "seed 0, replica 0"."""
        return [
            ", ".join(f"{name} {number}" for name, number in self.labels(replica).items())
            for replica in range(self.replicas)
        ]

    def evaluation_step(self, replica: int = 0) -> Callable[[Any, Mapping[str, Any]], dict[str, jax.Array]]:
        """The function ((parameters, statistics), batch) -> summed losses and the token count of a replica, without
        dropout."""
        mine = {path: values[replica] for path, values in self.varied.items()}
        return lambda model, batch: self._evaluation_step(model, batch, mine)

    @cached_property
    def _evaluation_step(self) -> Callable[..., dict[str, jax.Array]]:
        def step(
            model: tuple[Any, Any], batch: Mapping[str, Any], mine: Mapping[str, jax.Array]
        ) -> dict[str, jax.Array]:
            with scope(mine):
                return self.losses(model, batch)

        return hosts.together(jax.jit(step))

    def losses(self, model: tuple[Any, Any], batch: Mapping[str, Any]) -> dict[str, jax.Array]:
        """The computation of an evaluation step, as a function to trace."""
        batch = NamedArrays(batch)
        total, sums = self.task.loss(self.structure.merge(*model), batch, None)
        return {"loss": total, **sums, "tokens": self.task.count(batch)}

    def arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes of a batch with the dtypes of the data."""
        dtype = lambda name: jnp.dtype(self.data.dtypes.get(name, "int32"))
        return {name: jax.ShapeDtypeStruct(shape, dtype(name)) for name, shape in shapes.items()}

    def largest_evaluation_batch(self, rows: int) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes and dtypes of the largest batch of an evaluation, whose rows are not packed."""
        shapes = max(self.data.train_shapes(rows), key=lambda one: sum(math.prod(shape) for shape in one.values()))
        packing = ("_segments", "_positions")
        return self.arrays({name: shape for name, shape in shapes.items() if not name.endswith(packing)})


def of_replica(state: Mapping[str, Any], replica: int, replicas: int) -> tuple[Any, Any]:
    """(parameters, statistics) of one replica of a plain state."""
    pick = (lambda x: x[replica]) if replicas > 1 else (lambda x: x)
    return jax.tree.map(pick, state["parameters"]), jax.tree.map(pick, state["statistics"])


def mean_losses(step: Callable, model: tuple[Any, Any], batches: Iterator[tuple[Any, dict]]) -> dict[str, float]:
    """The mean losses over evaluation batches, weighted by the count of the task, whose total is returned as
    "tokens"."""
    sums: dict[str, float] = {}
    for ids, batch in batches:
        if np.any(ids >= 0):  # skip a batch of only filler rows: the task would count it as 1 token
            for name, value in step(model, batch).items():
                sums[name] = sums.get(name, 0.0) + float(value)
    tokens = max(sums.pop("tokens", 0.0), 1.0)
    return {**{name: value / tokens for name, value in sums.items()}, "tokens": tokens}
