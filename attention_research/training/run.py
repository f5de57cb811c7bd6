"""Trains the model of a config in a workdir (`train`). Running the same command again continues the run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.config import Config, ConfigError
from attention_research.config.entry_points import origins
from attention_research.data.from_run import recorded
from attention_research.data.protocol import Data
from attention_research.parallel import hosts
from attention_research.training import claiming, ending, initial, keeping, provenance, tracking
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.clock import Clock
from attention_research.training.environment import describe
from attention_research.training.failure import failure_told, tell_failure
from attention_research.training.health import Health, enough_memory
from attention_research.training.interruption import Stop, stopping
from attention_research.training.metrics_log import MetricsLog, NoLog, read_metrics
from attention_research.training.profiling import Profile
from attention_research.training.progress import Progress
from attention_research.training.replicas import member_configs
from attention_research.training.schedules import stretched
from attention_research.training.scoring import FurtherEvaluations, check_classes, check_not_empty, no_such_number
from attention_research.training.settings import Training
from attention_research.training.trainer import Trainer, mean_losses, of_replica


def train(
    config: Config,
    workdir: Path,
    report: Callable[[str], None] | None = None,
    *,
    profile: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Trains `config` in `workdir` to its last step and returns a summary. Continues from the latest checkpoint.

    `profile` is the first and the last step of a profile, which is written to `workdir/profile`.

    Raises ConfigError if the folder belongs to another config, RunError for a failure during the run, Diverged for a
    NaN or infinite loss, gradient or parameter, and Interrupted (a SystemExit with status 128 + the signal) after a
    signal, once the checkpoint is written.

    A run of a packaged config, with one setting changed:

        from attention_research.config import load
        config = load("translation/transformer:smoke", [("training.steps", "50")])
        train(config, Path("runs/first"), print)
    """
    report = report if report and hosts.is_first() else lambda line: None
    member_configs(config)  # raises errors before anything is written
    profiled = Profile(workdir, profile)
    profiled.check(config.resolved["training"]["steps"])
    with ExitStack() as stack:
        stop = stack.enter_context(stopping(report))
        if hosts.is_first():
            claiming.check(workdir, config)
            initial.check(config, workdir, report)
        claim, trainer = claiming.Claim(config), Trainer(config)  # raises errors of the mesh before anything is written
        if trainer.replicas > 1 and trainer.settings.stop_at is not None:
            raise ConfigError(
                "config.training.stop_at: each run ends at its own step, but replicas end together; train the "
                f"{trainer.replicas} replicas as single runs, or leave stop_at out"
            )
        further = FurtherEvaluations(trainer)
        further.check_stop_by()
        tracking.check(trainer.settings.track if hosts.is_first() else ())
        stop.leave()
        if hosts.is_first():
            claim = stack.enter_context(claiming.claimed(workdir, config))
        with hosts.lost_told():
            hosts.wait("the workdir is claimed")
        if hosts.is_first():
            stack.enter_context(failure_told(workdir))
        tell = partial(tell_failure, workdir) if hosts.is_first() else lambda line: None
        stack.enter_context(hosts.watched(tell))
        stack.enter_context(hosts.lost_told())
        stack.enter_context(enough_memory(trainer.settings.batch_size))
        stack.enter_context(closing(profiled))
        return _train(trainer, further, claim, workdir, report, stop, profiled)


def _train(
    trainer: Trainer,
    further: FurtherEvaluations,
    claim: claiming.Claim,
    workdir: Path,
    report: Callable[[str], None],
    stop: Stop,
    profile: Profile,
) -> dict[str, Any]:
    settings, execution = trainer.settings, trainer.execution
    data = trainer.data
    begun = keeping.begun(workdir)
    _prepare(data, workdir, report)
    check_classes(trainer, data)
    if hosts.is_first() and not begun:
        keeping.keep(data, workdir, trainer.config, report)
    with ExitStack() as stack:
        checkpoints = stack.enter_context(Checkpoints(workdir, settings, report, further.criterion))
        step = hosts.agreed((checkpoints.clean() if hosts.is_first() else None) or 0)
        if step:
            state = execution.restored(checkpoints.restore(step, execution.abstract))
            report(f"continuing from step {step} in {workdir}")
            if (line := profile.passed(step)) is not None:
                report(line)
            if (line := stretched(claim.before, trainer.config, step)) is not None:
                report(line)
        elif settings.initial is not None:
            state, taken = initial.start(trainer, report)
            if hosts.is_first():
                initial.record(workdir, taken)
        else:
            state = execution.start()
        written = MetricsLog(workdir, step) if hosts.is_first() else NoLog()
        claim.reached = step  # the log is cut back to the checkpoint
        trackers = tracking.opened(settings.track if hosts.is_first() else (), workdir)
        log = stack.enter_context(closing(tracking.TrackedLog(written, trackers)))
        progress = stack.enter_context(closing(Progress(settings.steps, report)))
        clock, health = Clock(), Health(trainer.parameters, trainer.whose())
        part = dict(zip(("host", "hosts"), execution.part, strict=True))
        batches = data.train_batches(seed=settings.data_seed, batch_size=settings.batch_size, start_step=step, **part)
        stop.leave()
        stop.patient, stopped = True, False
        reached = hosts.agreed(ending.reached(workdir, settings.stop_at, settings.stop_by) if hosts.is_first() else 0)
        if step < settings.steps and reached < settings.stop_checks:
            if hosts.is_first():  # a finished run keeps the record of the process that trained it
                _record(trainer, workdir, step)
            check_not_empty(data, "validation")  # otherwise a run fails at its first validation, perhaps after hours
        while step < settings.steps and not stopped and reached < settings.stop_checks:
            profile.before(step + 1)
            state, metrics = clock.run(execution.step, state, clock.next(batches, execution.place))
            step += 1
            profile.after(step, metrics)
            metrics = health.watch(step, metrics)
            stopped, last = _stopped(stop, step % settings.log_every == 0), step == settings.steps
            logged = step % settings.log_every == 0 or last
            if logged:
                checkpoints.check()
                health.check()
                _write(log, step, metrics, trainer, clock, progress)
            evaluated = step % settings.eval_every == 0 or last
            if evaluated:
                with clock.paused():
                    health.check()
                    scores = _validate(further, execution.plain(state), log, step)
                    progress.validated(step, scores)
                reached = reached + 1 if _reaches(settings, scores) else 0
                last = last or reached == settings.stop_checks
                if last and not logged:  # `status` takes the last step from the training lines
                    _write(log, step, metrics, trainer, clock, progress)
            best = evaluated and hosts.agreed(hosts.is_first() and checkpoints.would_be_kept(step))
            if step % settings.checkpoint_every == 0 or last or best or stopped:
                with clock.paused():
                    health.check()
                    health.check_state(step, state)
                    log.sync()
                    checkpoints.save(step, execution.plain(state))
    if stopped and step < settings.steps:
        stop.leave(f"saved step {step} of {settings.steps} in {workdir}; the same command continues from there")
    return {"steps": step, **clock.summary(), **final_loss(workdir)}


def _record(trainer: Trainer, workdir: Path, step: int) -> None:
    """Writes environment.json for a process that trains from `step` on."""
    known = {**recorded(trainer.data.tokenizer), **initial.kept(workdir), "parameters": trainer.parameter_count}
    if variants := origins(trainer.config.resolved):
        known["variants"] = variants
    provenance.record(workdir, {**describe(), **trainer.execution.describe(), **known}, step)


def _prepare(data: Data, workdir: Path, report: Callable[[str], None]) -> None:
    """Prepares the data on the first host, then on the other hosts, which reuse its files if they can read them.

    Raises ConfigError if the run has begun with another text or vocabulary.
    """
    if hosts.is_first():
        _prepare_here(data, workdir, report)
    hosts.wait("the data are prepared")
    if not hosts.is_first():
        _prepare_here(data, workdir, report)


def _prepare_here(data: Data, workdir: Path, report: Callable[[str], None]) -> None:
    taken = keeping.take(data, workdir, report)
    data.prepare(report)
    if not taken and keeping.begun(workdir):
        keeping.same_as_recorded(data, workdir)


def _stopped(stop: Stop, together: bool) -> bool:
    """Whether a signal has arrived at any host. With several hosts, the check needs communication and runs only if
    `together` is true."""
    if hosts.count() > 1:
        if not together or not hosts.any_host(stop.number is not None):
            return False
        stop.number = stop.number or signal.SIGTERM
    return stop.number is not None


def _write(
    log: tracking.TrackedLog, step: int, metrics: Any, trainer: Trainer, clock: Clock, progress: Progress
) -> None:
    values, figures = jax.device_get(metrics), clock.lap()
    for replica in range(trainer.replicas):
        mine = {name: float(np.asarray(x).reshape(-1)[replica if np.ndim(x) else 0]) for name, x in values.items()}
        log.write(step=step, split="train", **trainer.labels(replica), **figures, **mine)
    progress.update(step, float(np.mean(values["loss"])), clock)


def _validate(
    further: FurtherEvaluations, state: Any, log: tracking.TrackedLog, step: int
) -> Mapping[str, Sequence[float]]:
    """Writes the scores of a validation to the log. Returns those of the validation split, one for each replica."""
    trainer, found = further.trainer, dict[str, list[float]]()
    settings, data = trainer.settings, trainer.data
    for replica in range(trainer.replicas):
        examples = settings.eval_batches * settings.batch_size
        rows = settings.batch_size // settings.accumulation_steps
        batches = data.evaluation_batches("validation", rows, examples=examples)
        model = of_replica(state, replica, trainer.replicas)
        losses = mean_losses(trainer.evaluation_step(replica), model, batches)
        numbers = further.numbers(model, replica)
        scores = {**losses, **numbers.pop("validation", {})}
        for split, values in {"validation": scores, **numbers}.items():
            log.write(step=step, split=split, **trainer.labels(replica), **values)
        for name, value in scores.items():
            found.setdefault(name, []).append(value)
    return found


def _reaches(settings: Training, scores: Mapping[str, Sequence[float]]) -> bool:
    """Whether all replicas of a validation are as good as `training.stop_at` asks. Raises ConfigError if the validation
    has no such number."""
    if settings.stop_at is None:
        return False
    if settings.stop_by not in scores:
        raise no_such_number(settings.stop_by, scores)
    return min(scores[settings.stop_by]) >= settings.stop_at


def final_loss(workdir: Path) -> dict[str, float]:
    """{"loss": the mean over the last ten training lines}, or {} if there are no such lines."""
    lines = [line for line in read_metrics(workdir) if line["split"] == "train" and "loss" in line]
    return {"loss": float(np.mean([line["loss"] for line in lines[-10:]]))} if lines else {}
