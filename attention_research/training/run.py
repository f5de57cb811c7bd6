"""`train`: from a config to a trained model in a workdir. Rerunning the same command continues the same run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.config import Config, ConfigError, build_experiment
from attention_research.layers.structure import abstract
from attention_research.parallel import hosts
from attention_research.parallel.execution import AXIS, MeshExecution, PmapExecution
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.clock import Clock
from attention_research.training.environment import describe
from attention_research.training.failure import failure_told, tell_failure
from attention_research.training.health import Health, enough_memory
from attention_research.training.interruption import Stop, stopping
from attention_research.training.progress import Progress
from attention_research.training.step import initial_state, make_train_step
from attention_research.training.workdir import MetricsLog, NoLog, claim, locked, read_metrics, write_json


class Trainer:
    """A config's objects put together: model structure, task, optimizer, execution. Allocates nothing until `start`."""

    def __init__(self, config: Config):
        self.parts = parts = build_experiment(config)
        self.config = config
        self.make_model = lambda rngs: parts.model(rngs=rngs)
        self.task, self.settings, self.parallel = parts.task(), parts.training(), parts.parallel()
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
        if self.parallel.strategy == "pmap":
            if replicas > 1:
                raise ConfigError("config.training.replicas: replicas run under parallel.strategy=jit, not pmap")
            self.step_and_start = train_step(axis_name=AXIS), start
            self.execution: Any = PmapExecution(*self.step_and_start, seed)
        else:
            self.step_and_start = train_step(), start
            seeds = np.asarray(self.seeds, np.int32) if replicas > 1 else seed
            self.execution = MeshExecution(*self.step_and_start, self.parallel.mesh.sizes, seeds, replicas)
        shapes = (shape for batch in parts.data().train_shapes(self.settings.batch_size) for shape in batch.values())
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


def train(config: Config, workdir: Path, report: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Trains `config` in `workdir` to its last step and returns a summary; continues from the latest checkpoint.

    Raises ConfigError for a folder of another config, RunError for what fails while running, Diverged where a number is
    no number, Interrupted (a SystemExit of status 128 + the signal) once a signal's checkpoint is written.
    """
    report = report if report and hosts.is_first() else lambda line: None
    with ExitStack() as stack:
        stop = stack.enter_context(stopping(report))
        if hosts.is_first():
            stack.enter_context(locked(workdir))
            claim(workdir, config)
        with hosts.lost_told():
            hosts.wait("the workdir is claimed")
        trainer = Trainer(config)
        if hosts.is_first():
            stack.enter_context(failure_told(workdir))
        tell = partial(tell_failure, workdir) if hosts.is_first() else lambda line: None
        stack.enter_context(hosts.watched(tell))
        stack.enter_context(hosts.lost_told())
        stack.enter_context(enough_memory(trainer.settings.batch_size))
        return _train(trainer, workdir, report, stop)


def _train(trainer: Trainer, workdir: Path, report: Callable[[str], None], stop: Stop) -> dict[str, Any]:
    settings, execution = trainer.settings, trainer.execution
    data = trainer.parts.data()
    _prepare(data, report)
    if hosts.is_first():
        write_json(workdir / "environment.json", {**describe(), **execution.describe()})
    with ExitStack() as stack:
        checkpoints = stack.enter_context(Checkpoints(workdir, settings, report))
        step = hosts.agreed((checkpoints.clean() if hosts.is_first() else None) or 0)
        if step:
            state = execution.restored(checkpoints.restore(step, execution.abstract))
            report(f"continuing from step {step} in {workdir}")
        else:
            state = execution.start()
        log = stack.enter_context(closing(MetricsLog(workdir, step) if hosts.is_first() else NoLog()))
        progress = stack.enter_context(closing(Progress(step, settings.steps, report)))
        clock, health = Clock(), Health(trainer.parameters, trainer.seeds)
        part = dict(zip(("host", "hosts"), execution.part(settings.batch_size), strict=True))
        batches = data.train_batches(seed=settings.seed, batch_size=settings.batch_size, start_step=step, **part)
        stop.patient, stopped = True, False
        while step < settings.steps and not stopped:
            state, metrics = clock.run(execution.step, state, clock.next(batches, execution.place))
            step += 1
            metrics = health.watch(step, metrics)
            stopped, last = _stopped(stop, step % settings.log_every == 0), step == settings.steps
            if step % settings.log_every == 0 or last:
                checkpoints.check()
                health.check()
                _write(log, step, metrics, trainer.seeds, clock, progress)
            evaluated = step % settings.eval_every == 0 or last
            if evaluated:
                with clock.paused():
                    health.check()
                    _validate(data, execution.plain(state), trainer, log, step)
            best = evaluated and hosts.agreed(hosts.is_first() and checkpoints.would_be_kept(step))
            if step % settings.checkpoint_every == 0 or last or best or stopped:
                with clock.paused():
                    health.check()
                    health.check_state(step, state)
                    log.sync()
                    checkpoints.save(step, execution.plain(state))
    if step < settings.steps:
        stop.leave(f"saved step {step} of {settings.steps} in {workdir}; the same command continues from there")
    return {"steps": step, **clock.summary(), **_final_loss(workdir)}


def _prepare(data: Any, report: Callable[[str], None]) -> None:
    """By the first host, then by those that do not find what it has prepared."""
    if hosts.is_first():
        data.prepare(report)
    hosts.wait("the data are prepared")
    if not hosts.is_first():
        data.prepare(report)


def _stopped(stop: Stop, together: bool) -> bool:
    """Whether a signal has come, to any host; several hosts look `together` only."""
    if hosts.count() > 1:
        if not together or not hosts.any_host(stop.number is not None):
            return False
        stop.number = stop.number or signal.SIGTERM
    return stop.number is not None


def _write(log: MetricsLog, step: int, metrics: Any, seeds: list[int], clock: Clock, progress: Progress) -> None:
    values, figures = jax.device_get(metrics), clock.lap()
    for replica, seed in enumerate(seeds):
        mine = {name: float(np.asarray(x).reshape(-1)[replica if np.ndim(x) else 0]) for name, x in values.items()}
        log.write(step=step, split="train", seed=seed, **figures, **mine)
    progress.update(step, float(np.mean(values["loss"])), clock.counted)


def _validate(data: Any, state: Any, trainer: Trainer, log: MetricsLog, step: int) -> None:
    settings = trainer.settings
    for replica, seed in enumerate(trainer.seeds):
        examples = settings.eval_batches * settings.batch_size
        rows = settings.batch_size // settings.accumulation_steps
        batches = data.evaluation_batches("validation", rows, examples=examples)
        model = of_replica(state, replica, settings.replicas)
        log.write(step=step, split="validation", seed=seed, **mean_losses(trainer.evaluation_step, model, batches))


def _final_loss(workdir: Path) -> dict[str, float]:
    lines = [line for line in read_metrics(workdir) if line["split"] == "train"]
    return {"loss": float(np.mean([line["loss"] for line in lines[-10:]]))} if lines else {}
