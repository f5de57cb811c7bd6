"""A config's objects put together, and the losses of one of its models over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from attention_research.config import Config, ConfigError, build_experiment
from attention_research.data.protocol import Data
from attention_research.layers.structure import abstract
from attention_research.parallel import hosts
from attention_research.parallel.execution import AXIS, MeshExecution, PmapExecution
from attention_research.parallel.replica_settings import scope
from attention_research.tasks.protocol import Task
from attention_research.training.replicas import marked, member_configs, side_by_side, varied_values
from attention_research.training.step import initial_state, make_train_step


class Trainer:
    """A config's objects put together: model structure, task, optimizer, execution. Allocates nothing until `start`.

    Of replicas they are the first one's, with a `Varied` where a number differs; `seeds` are all of theirs. `alone`
    leaves the config's devices aside for the first of those that are here: to read what is trained anywhere.
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
        width = config.resolved["model"].get("width")
        self.optimizer = optimizer = self.settings.optimizer(width)
        schedule = self.settings.schedule(width)
        start, parts_of_batch = initial_state(self.make_model, optimizer), self.settings.accumulation_steps
        train_step = partial(
            make_train_step, self.structure, self.task, optimizer, schedule, accumulation_steps=parts_of_batch
        )
        if self.parallel.strategy == "pmap" and not alone:
            if self.replicas > 1:
                raise ConfigError("config.training.replicas: replicas run under parallel.strategy=jit, not pmap")
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
        """How many there are."""
        return len(self.seeds)

    def labels(self, replica: int) -> dict[str, int]:
        """What a line or a result says whose it is: its seed and, where there are several, which replica's."""
        return {"seed": self.seeds[replica], **({"replica": replica} if self.replicas > 1 else {})}

    def whose(self) -> list[str]:
        """The same in words, for every replica."""
        return [
            ", ".join(f"{name} {number}" for name, number in self.labels(replica).items())
            for replica in range(self.replicas)
        ]

    def evaluation_step(self, replica: int = 0) -> Callable[[Any, Mapping[str, Any]], dict[str, jax.Array]]:
        """(parameters, statistics) of a replica and a batch -> summed losses and the token count, without dropout."""
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
        """What an evaluation step computes, as a function to trace."""
        total, sums = self.task.loss(self.structure.merge(*model), batch, None)
        return {"loss": total, **sums, "tokens": self.task.count(batch)}


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
