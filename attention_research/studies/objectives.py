"""The objective of a search: one number of a trial's result, to be minimised or maximised."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

from attention_research.config import Config
from attention_research.errors import ConfigError
from attention_research.studies.columns import QUALITY, Column, evaluated, fixed, metrics

#: The last validation loss, which the table of a search shows beside the numbers of the stages.
VALIDATION_LOSS = Column("search.validation_loss", "validation loss", fixed(3), better="lower")
_DIRECTIONS = {"min": "lower", "max": "higher"}


@dataclasses.dataclass(frozen=True)
class Objective:
    """The objective: the number in this column, whose `better` is "lower" or "higher"."""

    column: Column = VALIDATION_LOSS

    def cost(self, result: Mapping[str, Any]) -> float:
        """The number that Optuna minimises, negated if higher is better.

        Infinite for NaN and for a diverged trial. Raises ConfigError if a finished trial has no such number.
        """
        if result["diverged"]:
            return math.inf
        stage, name = self.column.key.split(".", 1)
        numbers = with_validation_loss(result)["stages"]
        value = numbers.get(stage, {}).get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"--objective: a trial has no number {self.column.key}; {_nearest(self.column, numbers)}")
        cost = -value if self.column.better == "higher" else value
        return math.inf if math.isnan(cost) else cost


def read_objective(text: str | None) -> Objective:
    """Parses ``stage.name``, as in ``evaluate.bleu``.

    A prefix ``min:`` or ``max:`` gives the direction; it is required for numbers whose direction is not known.

    >>> objective = read_objective("evaluate.bleu")
    >>> objective.column.title, objective.column.better
    ('BLEU', 'higher')
    """
    if text is None:
        return Objective()
    direction, colon, key = text.partition(":")
    if not colon:
        direction, key = "", text
    known = {column.key: column for column in (*QUALITY, VALIDATION_LOSS)}
    of_metrics = (evaluated(metric.name) for metric in metrics())
    if direction and direction not in _DIRECTIONS:
        raise ConfigError(f"--objective={text}: {direction!r} is neither min nor max")
    if not all(key.partition(".")[::2]):
        raise ConfigError(f"--objective={text}: expected STAGE.NAME, such as evaluate.bleu")
    column = known.get(key) or next((one for one in of_metrics if one.key == key), Column(key, key, fixed(3)))
    better = _DIRECTIONS.get(direction, column.better)
    if not better:
        has = ", ".join(key for key, column in known.items() if column.better)
        raise ConfigError(f"--objective={text}: say min:{key} or max:{key}; known without it: {has}")
    return Objective(dataclasses.replace(column, better=better))


def check_split(objective: Objective, config: Config) -> None:
    """Raises ConfigError if the objective is a score of the test split, which must not be used to choose settings."""
    stage, name, *metric = objective.column.key.split(".", 2)
    further = config.resolved["evaluations"]
    path, section = "evaluation", config.resolved["evaluation"]
    if metric and name in further:
        path, section = f"evaluations.{name}", further[name]
    if stage == "evaluate" and section["split"] == "test":
        raise ConfigError(
            f"--objective={objective.column.key}: no setting may be chosen by the test split; "
            f"set config.{path}.split=validation"
        )


def with_validation_loss(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with its last validation loss, if any, added to the numbers of its stages."""
    curve = result["curves"].get("validation")
    stage, name = VALIDATION_LOSS.key.split(".")
    found = {stage: {name: curve[-1][1]}} if curve else {}
    return {**result, "stages": {**result["stages"], **found}}


def _nearest(column: Column, stages: Mapping[str, Mapping[str, Any]]) -> str:
    keys = [f"{stage}.{name}" for stage, numbers in stages.items() for name in numbers]
    close = difflib.get_close_matches(column.key, keys, 1, 0.5)
    return f"did you mean {close[0]}?" if close else f"it has {', '.join(keys) or 'none'}"
