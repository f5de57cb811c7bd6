"""Which checkpoint of a run `evaluate`, `generate` and `export` read: the newest, the best, a step's, or a mean.

The best one has the lowest validation loss (of replicas: the lowest mean) among those that are there.
"""

from __future__ import annotations

import dataclasses

from attention_research.errors import ConfigError, RunError
from attention_research.training import digests
from attention_research.training.averaging import newest_scheduled
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.workdir import validation_losses


@dataclasses.dataclass(frozen=True)
class Selection:
    """`name` is "last", "best", "step" or "mean"; `steps` one, or those that the mean is taken of, the newest last."""

    name: str
    steps: list[int]

    def __str__(self) -> str:
        if self.name == "mean":
            return f"mean of checkpoints {', '.join(map(str, self.steps))}"
        return f"checkpoint {self.steps[-1]}" + {"last": " (last)", "best": " (lowest validation loss)"}.get(
            self.name, ""
        )


def select(checkpoints: Checkpoints, wanted: str | int | None, average: int) -> Selection:
    """`wanted` is "last", "best", a step, or None: the mean of the newest `average`, which are the last one if 1.

    Raises RunError where no checkpoint is whole, ConfigError where the one wanted is not there.
    """
    latest = checkpoints.latest()
    if latest is None:
        raise RunError(f"{checkpoints.workdir}: no finished checkpoint; run train there first")
    if wanted == "best":
        return Selection("best", [_best(checkpoints)])
    if isinstance(wanted, int):
        return Selection("step", [_of_step(checkpoints, wanted)])
    if wanted is None and average > 1:
        return Selection("mean", newest_scheduled(checkpoints, average))
    return Selection("last", [latest])


def _best(checkpoints: Checkpoints) -> int:
    workdir, there = checkpoints.workdir, checkpoints.steps()
    losses = validation_losses(workdir)
    if not losses:
        assert checkpoints.settings is not None
        raise ConfigError(
            f"--checkpoint=best: {workdir} has no validation loss yet; training logs one every "
            f"{checkpoints.settings.eval_every} steps (training.eval_every) and at its end: rerun train there, or give "
            "--checkpoint=last"
        )
    lowest = min(losses, key=lambda step: (losses[step], step))
    best = next((step for step in checkpoints.best(len(there)) if checkpoints.whole(step)), None)
    if best is None:
        raise ConfigError(
            f"--checkpoint=best: of the checkpoints in {workdir} ({', '.join(map(str, there))}) none that is whole has "
            f"a validation loss (the lowest is of step {lowest}); train with training.keep_best=1, or give "
            "--checkpoint=last"
        )
    if best != lowest:
        checkpoints.report(
            f"the lowest validation loss is of step {lowest}, whose checkpoint is not there: {best} is the best that is"
        )
    return best


def _of_step(checkpoints: Checkpoints, step: int) -> int:
    there = checkpoints.steps()
    if step not in there:
        raise ConfigError(
            f"--checkpoint={step}: {checkpoints.workdir} has no checkpoint of that step; "
            f"there is {', '.join(map(str, there))}"
        )
    reason = digests.damage(checkpoints.folder / str(step))
    if reason is not None:
        raise RunError(f"checkpoint {step} in {checkpoints.folder} is damaged ({reason}); give another --checkpoint")
    return step
