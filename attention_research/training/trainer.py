"""A config's objects put together, and the losses of one of its models over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from attention_research.config import Config, ConfigError, build_experiment
from attention_research.layers.structure import abstract
from attention_research.parallel.execution import AXIS, MeshExecution, PmapExecution
from attention_research.training.step import initial_state, make_train_step


class Trainer:
    """A config's objects put together: model structure, task, optimizer, execution. Allocates nothing until `start`.

    `alone` leaves the config's devices aside for the first of those that are here: to read what is trained anywhere.
    """

    def __init__(self, config: Config, *, alone: bool = False):
        self.parts = parts = build_experiment(config)
        self.config = config
        self.make_model = lambda rngs: parts.model(rngs=rngs)
        self.task, self.settings, self.parallel = parts.task(), parts.training(), parts.parallel()
        self.data = parts.data()
        self.structure, parameters, _ = abstract(self.make_model)
        self.parameters = tuple(name for name in self.structure.names if name in parameters)
        width = config.resolved["model"]["width"]
        optimizer, schedule = self.settings.optimizer(width), self.settings.schedule(width)
        start = initial_state(self.make_model, optimizer)
        replicas, seed, parts_of_batch = self.settings.replicas, self.settings.seed, self.settings.accumulation_steps
        self.seeds = [seed + replica for replica in range(replicas)]
        train_step = partial(
            make_train_step, self.structure, self.task, optimizer, schedule, accumulation_steps=parts_of_batch
        )
        if self.parallel.strategy == "pmap" and not alone:
            if replicas > 1:
                raise ConfigError("config.training.replicas: replicas run under parallel.strategy=jit, not pmap")
            self.step_and_start = train_step(axis_name=AXIS), start
            self.execution: Any = PmapExecution(*self.step_and_start, seed)
        else:
            self.step_and_start = train_step(), start
            seeds = np.asarray(self.seeds, np.int32) if replicas > 1 else seed
            sizes = dict.fromkeys(self.parallel.mesh.sizes, 1) if alone else self.parallel.mesh.sizes
            devices = jax.devices()[:1] if alone else None
            self.execution = MeshExecution(*self.step_and_start, sizes, seeds, replicas, devices=devices)
        shapes = (shape for batch in self.data.train_shapes(self.settings.batch_size) for shape in batch.values())
        self.execution.check(self.settings.batch_size, parts_of_batch, shapes)

    @cached_property
    def evaluation_step(self) -> Callable[[Any, Mapping[str, Any]], dict[str, jax.Array]]:
        """(parameters, statistics) of one model and a batch -> summed losses and the token count, without dropout."""

        def step(model: tuple[Any, Any], batch: Mapping[str, Any]) -> dict[str, jax.Array]:
            total, sums = self.task.loss(self.structure.merge(*model), batch, None)
            return {"loss": total, **sums, "tokens": self.task.count(batch)}

        return jax.jit(step)


def of_replica(state: Mapping[str, Any], replica: int, replicas: int) -> tuple[Any, Any]:
    """(parameters, statistics) of one replica of a plain state."""
    pick = (lambda x: x[replica]) if replicas > 1 else (lambda x: x)
    return jax.tree.map(pick, state["parameters"]), jax.tree.map(pick, state["statistics"])


def mean_losses(step: Callable, model: tuple[Any, Any], batches: Iterator[tuple[Any, dict]]) -> dict[str, float]:
    """Means of the losses over evaluation batches, weighted by what the task counts; "tokens" is how many those are."""
    sums: dict[str, float] = {}
    for ids, batch in batches:
        if np.any(ids >= 0):  # the task's count is at least 1: a filler batch counts nothing
            for name, value in step(model, batch).items():
                sums[name] = sums.get(name, 0.0) + float(value)
    tokens = max(sums.pop("tokens", 0.0), 1.0)
    return {**{name: value / tokens for name, value in sums.items()}, "tokens": tokens}
