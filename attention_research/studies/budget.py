"""The training budget of a study: its declaration, and the rules that choose learning rates and numbers of steps.

The rules use only the validation loss, never a test split. The learning rate of a family of rows is the one with the
lowest validation loss. The number of steps is the last doubling that lowered the validation loss of the reference row
by the declared share. `budgeting` runs the trials.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attention_research.errors import ConfigError

#: The largest number of validations of a trial, at equal distances and at its end. The best checkpoint is one of these.
EVALUATIONS = 10
#: Significant digits of a learning rate, so that the printed rate is exactly the one that was tried.
DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Budget:
    """Rows of a study that train for the same number of steps, which is chosen with their reference `row`.

    `families` maps a representative row to the other rows that use its learning rate (it may be listed too). Rows in no
    family of a study belong to the reference row of its first budget. Each representative is tried at its own learning
    rate times each of `rates`. The reference row, at its best rate, is trained for half of its steps. Then the steps
    are doubled up to `doublings` times, until the validation loss falls by less than the share `gain`.
    """

    row: str
    families: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    rates: tuple[float, ...] = (0.5, 1.0, 2.0)
    gain: float = 0.01
    doublings: int = 3

    def __post_init__(self) -> None:
        if len(set(self.rates)) < len(self.rates) or not self.rates or min(self.rates) <= 0:
            raise ConfigError(f"budget of row {self.row!r}: expected different rates above 0, got {self.rates}")
        if not 0 < self.gain < 1 or self.doublings < 1:
            raise ConfigError(f"budget of row {self.row!r}: expected a gain between 0 and 1 and at least one doubling")


@dataclasses.dataclass(frozen=True)
class Tried:
    """A trial of a budget and its result.

    `factor` is its learning rate or its number of steps, as a multiple of the scale's. `loss` is the lowest validation
    loss and `step` its step; for a diverged trial they are infinity and None.
    """

    factor: float
    rate: float
    steps: int
    loss: float
    step: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "loss": self.loss if math.isfinite(self.loss) else None}


@dataclasses.dataclass(frozen=True)
class Length:
    """The choice of a length: the `chosen` trial (None: all diverged), whether the choice is final, and why.

    `gains` holds, for each length after the first, the share by which it lowered the lowest validation loss of the
    shorter ones.
    """

    chosen: Tried | None
    final: bool
    why: str
    gains: tuple[float, ...] = ()


def check(budgets: Sequence[Budget], rows: Sequence[str], study: str) -> None:
    """Raises ConfigError if budgets name an unknown row, or a row in two families."""
    seen: dict[str, str] = {}
    for budget in budgets:
        families = {budget.row: (), **budget.families}
        for representative, covered in families.items():
            for row in dict.fromkeys((representative, *covered)):
                if row not in rows:
                    raise ConfigError(f"study {study!r}: its budget names the row {row!r}, which is not there")
                if row in seen:
                    raise ConfigError(f"study {study!r}: its budget has the row {row!r} in two families")
                seen[row] = representative


def families_at(budgets: Sequence[Budget], rows: Sequence[str]) -> list[dict[str, tuple[str, ...]]]:
    """For each budget: representative -> the rows of its family in `rows`, with the reference row's family first.

    A representative that is not in `rows` is replaced by the first row of its family that is.
    """
    named = {row for one in budgets for name, covered in one.families.items() for row in (name, *covered)}
    named |= {one.row for one in budgets}
    found = []
    for budget in budgets:
        families = {budget.row: (), **budget.families}
        mine: dict[str, tuple[str, ...]] = {}
        for name, covered in families.items():
            others = [row for row in rows if row not in named] if budget is budgets[0] and name == budget.row else []
            present = [row for row in dict.fromkeys((name, *covered, *others)) if row in rows]
            if present:
                mine[present[0]] = tuple(present)
        found.append(mine)
    return found


def winner(tried: Iterable[Tried]) -> Tried | None:
    """The trial with the lowest validation loss; of equal ones that with the rate nearest to the scale's.

    None if every trial diverged.

    >>> winner([Tried(0.5, 1e-4, 1000, loss=3.1), Tried(1.0, 2e-4, 1000, loss=3.0)]).rate
    0.0002
    """
    finite = [one for one in tried if math.isfinite(one.loss)]
    return min(finite, key=lambda one: (one.loss, abs(math.log(one.factor)), one.factor), default=None)


def on_the_edge(best: Tried | None, rates: Sequence[float]) -> bool:
    """Whether the best rate is the lowest or the highest that was tried, so that a better one may be outside."""
    return best is not None and len(rates) > 1 and best.factor in (min(rates), max(rates))


def factors(budget: Budget) -> list[float]:
    """The lengths in the order in which they are tried, as multiples of the scale's steps.

    >>> factors(Budget("base"))
    [0.5, 1.0, 2.0, 4.0]
    """
    return [2.0 ** (k - 1) for k in range(budget.doublings + 1)]


def length(budget: Budget, tried: Sequence[Tried]) -> Length:
    """Chooses the length from those tried so far, shortest first: the last one that lowered the loss by `gain`.

    The choice is final if the longest length did not lower the loss by `gain` and a shorter one did.

    >>> tried = [Tried(0.5, 1e-4, 500, 3.2), Tried(1.0, 1e-4, 1000, 3.0), Tried(2.0, 1e-4, 2000, 2.99)]
    >>> found = length(Budget("standard"), tried)
    >>> found.chosen.steps, found.why
    (1000, '2,000 steps lower the validation loss by 0.3%, less than 1%')
    """
    chosen = lowest = tried[0]
    gains = []
    for one in tried[1:]:
        gains.append(gain(lowest, one))
        chosen = one if gains[-1] >= budget.gain else chosen
        lowest = min(lowest, one, key=lambda trial: trial.loss)
    if not math.isfinite(lowest.loss):
        return Length(None, False, f"{budget.row} diverged at every length", tuple(gains))
    if not gains:
        return Length(chosen, False, "one length says nothing", ())
    longest = tried[-1]
    if math.isfinite(longest.loss):
        lowered = f"{longest.steps:,} steps lower the validation loss by {100 * gains[-1]:.1f}%"
    else:
        lowered = f"training for {longest.steps:,} steps diverged"
    if chosen is longest:
        why = f"{lowered}: the loss is still falling, {longest.steps:,} steps are too few; give more doublings"
    elif chosen is tried[0]:
        why = f"no length lowers the loss by {100 * budget.gain:g}%: fewer than {chosen.steps:,} steps may be enough"
    else:
        return Length(chosen, True, f"{lowered}, less than {100 * budget.gain:g}%", tuple(gains))
    return Length(chosen, False, why, tuple(gains))


def goes_on(budget: Budget, outcome: Length) -> bool:
    """Whether to try a longer training."""
    return 0 < len(outcome.gains) < budget.doublings and outcome.gains[-1] >= budget.gain


def gain(before: Tried, after: Tried) -> float:
    """The relative decrease of the validation loss.

    It is -inf if the longer training diverged, and inf if only the shorter one diverged.
    """
    if not math.isfinite(after.loss):
        return -math.inf
    if not math.isfinite(before.loss):
        return math.inf
    return (before.loss - after.loss) / abs(before.loss) if before.loss else 0.0


def stretched(training: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Overrides that make a resolved `training` section `factor` times as long, with its schedule in proportion.

    Warm-up, ramp and boundaries are multiplied by `factor`. The peak rate of the Noam schedule, learning_rate
    (D warm-up)^-0.5, is kept: learning_rate grows with the square root of the warm-up. There are at most EVALUATIONS
    validations.

    >>> training = {"steps": 1000, "learning_rate": 1.0, "schedule": {"kind": "noam", "warmup_steps": 100}}
    >>> for path, value in stretched(training, 4.0).items():
    ...     print(path, value)
    training.steps 4000
    training.eval_every 400
    training.schedule.warmup_steps 400
    training.learning_rate 2.0
    """
    steps = max(1, round(training["steps"] * factor))
    schedule = training["schedule"]
    found: dict[str, Any] = {"training.steps": steps, "training.eval_every": -(-steps // EVALUATIONS)}
    for name in ("warmup_steps", "ramp_steps"):
        if schedule.get(name):
            found[f"training.schedule.{name}"] = max(1, round(schedule[name] * factor))
    if "boundaries" in schedule:
        found["training.schedule.boundaries"] = tuple(max(1, round(step * factor)) for step in schedule["boundaries"])
    if schedule["kind"] == "noam":
        peak = math.sqrt(found["training.schedule.warmup_steps"] / schedule["warmup_steps"])
        found["training.learning_rate"] = rounded(training["learning_rate"] * peak)
    return found


def rounded(rate: float) -> float:
    """A learning rate with DIGITS significant digits.

    >>> rounded(0.1 * 3)
    0.3
    """
    return float(f"{rate:.{DIGITS}g}")
