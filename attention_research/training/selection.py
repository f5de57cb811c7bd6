"""Selects the checkpoint that `evaluate`, `generate` and `export` read: the newest, the best, one step, or a mean.

The best checkpoint is the existing one with the lowest validation loss, or with the best metric of `training.best_by`
(with replicas: by their mean). A mean averages the parameters of several checkpoints, as Vaswani et al. 2017, section
6.1 (the last 5 for the base model, the last 20 for the big model). It uses only the newest checkpoints on the schedule
(every `checkpoint_every` steps, and the last step). Checkpoints saved in between, at an interruption or after a good
evaluation, would give some part of training more weight.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from attention_research import checkpoint_choice
from attention_research.config import Config, build
from attention_research.config.errors import offer
from attention_research.errors import ConfigError, RunError
from attention_research.training import digests
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.metrics_log import LOSS, Criterion


def criterion_of(config: Config) -> Criterion:
    """The criterion of `training.best_by`. Raises ConfigError if its evaluation does not have the metric."""
    wanted = config.resolved["training"]["best_by"]
    if wanted == LOSS.name:
        return LOSS
    name, _, metric = wanted.partition(".")
    section = config.resolved["evaluations"][name]
    metrics = {one.name: one for one in build(section, "evaluation", f"config.evaluations.{name}")().metrics}
    if metric not in metrics:
        raise ConfigError(f"config.training.best_by: {section['kind']} has no {metric}; {offer(metric, metrics)}")
    return Criterion(wanted, metrics[metric].higher, section["split"])


@dataclasses.dataclass(frozen=True)
class Selection:
    """The selected checkpoints. `name` is "last", "best", "step" or "mean". `steps` has one step, or all steps of a
    mean, the newest last. `by` is the criterion for the best one.

    >>> print(Selection("mean", [800, 900, 1000]))
    mean of checkpoints 800, 900, 1000
    >>> print(Selection("best", [800]))
    checkpoint 800 (lowest validation loss)
    """

    name: str
    steps: list[int]
    by: str = str(LOSS)

    def __str__(self) -> str:
        if self.name == "mean":
            return f"mean of checkpoints {', '.join(map(str, self.steps))}"
        said = {"last": " (last)", "best": f" ({self.by})"}
        return f"checkpoint {self.steps[-1]}{said.get(self.name, '')}"


def select(checkpoints: Checkpoints, wanted: str | int | None, average: int) -> Selection:
    """Selects checkpoints. `wanted` is "last", "best", a step, or None for the mean of the newest `average` checkpoints
    (the last checkpoint if `average` is 1).

    Raises RunError if no checkpoint is intact, and ConfigError if the wanted one does not exist.
    """
    if wanted is not None and not checkpoint_choice.is_choice(wanted):
        raise ConfigError(f"--checkpoint={wanted}: expected {checkpoint_choice.EXPECTED}")
    latest = checkpoints.latest()
    if latest is None:
        raise RunError(f"{checkpoints.workdir}: no finished checkpoint; run train there first")
    if wanted == "best":
        return Selection("best", [_best(checkpoints)], str(checkpoints.criterion))
    if isinstance(wanted, int):
        return Selection("step", [_of_step(checkpoints, wanted)])
    if wanted is None and average > 1:
        return Selection("mean", newest_scheduled(checkpoints, average))
    return Selection("last", [latest])


def _best(checkpoints: Checkpoints) -> int:
    workdir, there = checkpoints.workdir, checkpoints.steps()
    costs, criterion = checkpoints.criterion.costs(workdir), checkpoints.criterion
    number = "validation loss" if criterion == LOSS else criterion.name
    if not costs:
        assert checkpoints.settings is not None
        raise ConfigError(
            f"--checkpoint=best: {workdir} has no {number} yet; training logs one every "
            f"{checkpoints.settings.eval_every} steps (training.eval_every) and at its end: rerun train there, or give "
            "--checkpoint=last"
        )
    first = min(costs, key=lambda step: (costs[step], step))
    best = next((step for step in checkpoints.best(len(there)) if checkpoints.whole(step)), None)
    side = "highest" if criterion.higher else "lowest"
    if best is None:
        raise ConfigError(
            f"--checkpoint=best: no intact checkpoint in {workdir} ({', '.join(map(str, there))}) has a {number} (step "
            f"{first} has the {side}); train with training.keep_best=1, or give --checkpoint=last"
        )
    if best != first:
        checkpoints.report(
            f"step {first} has the {criterion}, but its checkpoint is missing; using {best}, the best existing one"
        )
    return best


def _of_step(checkpoints: Checkpoints, step: int) -> int:
    there = checkpoints.steps()
    if step not in there:
        raise ConfigError(
            f"--checkpoint={step}: {checkpoints.workdir} has no checkpoint of that step; "
            f"there {'is' if len(there) == 1 else 'are'} {', '.join(map(str, there))}"
        )
    reason = digests.damage(checkpoints.folder / str(step))
    if reason is not None:
        raise RunError(f"checkpoint {step} in {checkpoints.folder} is damaged ({reason}); give another --checkpoint")
    return step


def newest_scheduled(checkpoints: Checkpoints, count: int) -> list[int]:
    """The steps of the `count` newest intact checkpoints on the schedule, the newest last.

    Raises ConfigError if there are fewer.
    """
    kept = [step for step in checkpoints.scheduled() if digests.damage(checkpoints.folder / str(step)) is None]
    if len(kept) < count:
        assert checkpoints.settings is not None
        every = checkpoints.settings.checkpoint_every
        there = f"{len(kept)} ({', '.join(map(str, kept))})" if kept else "none"
        raise ConfigError(
            f"--average={count}: the run has {there} of the checkpoints that it writes every {every} steps; "
            f"give --average={max(len(kept), 1)}"
        )
    return kept[-count:]


def averaged(restore: Callable[[int], dict[str, Any]], steps: Sequence[int]) -> dict[str, Any]:
    """The state of the last of `steps`, with the mean of the parameters of all steps. The sum is in float64.

    >>> states = {1: {"step": 1, "parameters": {"w": jnp.array([1.0, 2.0])}},
    ...           2: {"step": 2, "parameters": {"w": jnp.array([3.0, 4.0])}}}
    >>> averaged(states.__getitem__, [1, 2])
    {'step': 2, 'parameters': {'w': Array([2., 3.], dtype=float32)}}
    """
    total: dict[str, np.ndarray] = {}
    for step in steps:
        state = restore(step)
        for name, x in state["parameters"].items():
            total[name] = total.get(name, 0.0) + np.asarray(x, np.float64)
    mean = {name: jnp.asarray(total[name] / len(steps), x.dtype) for name, x in state["parameters"].items()}
    return {**state, "parameters": mean}
