"""Axes of a sweep: ``--over`` gives a setting a list of values or, for a search, a range of numbers.

--over model.self_attention.kind=standard,linformer     one of these values
--over model.num_layers=1..6                            an integer from 1 to 6, since both ends are integers
--over model.dropout_rate=0..0.5                        a real number
--over training.learning_rate=1e-4..1e-2:log            a real number, log-uniformly distributed
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attention_research.config import Config
from attention_research.config.identity import EXECUTION_LEAVES
from attention_research.config.value_lists import parse_over
from attention_research.errors import ConfigError

#: Significant digits of a drawn real number, so that the table shows exactly the number that was run.
_DIGITS = 6


@dataclasses.dataclass(frozen=True)
class Choices:
    """A list of values to choose from, written as in an override."""

    values: tuple[str, ...]

    def suggest(self, trial: Any, path: str) -> str:
        """The value of an Optuna trial for this path. Draws it if the trial has none yet."""
        return self.text(trial.suggest_categorical(path, self.values))

    def text(self, value: str) -> str:
        """The value as written in an override."""
        return value


@dataclasses.dataclass(frozen=True)
class Range:
    """A range of numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether the range is one of integers: both ends were written as integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def suggest(self, trial: Any, path: str) -> str:
        """The value of an Optuna trial for this path. Draws it if the trial has none yet."""
        suggest = trial.suggest_int if self.whole else trial.suggest_float
        return self.text(suggest(path, self.low, self.high, log=self.log))

    def text(self, value: float) -> str:
        """The value as written in an override. A real number has six significant digits and stays in the range.

        >>> Range(0.0, 1.0).text(0.12345678), Range(1, 6).text(3)
        ('0.123457', '3')
        """
        if self.whole:
            return str(value)
        return repr(min(max(float(f"{value:.{_DIGITS}g}"), float(self.low)), float(self.high)))


Axis = Choices | Range


def read_axes(over: Sequence[str], overrides: Sequence[tuple[str, Any]] = ()) -> dict[str, Axis]:
    """Path -> axis, from the ``--over`` options.

    Raises ConfigError if a path is given twice, is set by `overrides`, or changes only how a trial is executed.

    >>> read_axes(["model.num_heads=1,4"])
    {'model.num_heads': Choices(values=('1', '4'))}
    """
    axes: dict[str, Axis] = {}
    for text in over:
        path, axis = parse_axis(text)
        if path in axes:
            raise ConfigError(f"--over {path}: given twice")
        if path in dict(overrides):
            raise ConfigError(f"--over {path}: is also set by --config.{path}")
        if any(f"{path}.".startswith(f"{leaf}.") for leaf in EXECUTION_LEAVES):
            raise ConfigError(
                f"--over {path}: changes how a trial is run and not what it is; its rows would be one trial"
            )
        axes[path] = axis
    if not axes:
        raise ConfigError("sweep: needs at least one --over PATH=VALUE,VALUE")
    return axes


def parse_axis(text: str) -> tuple[str, Axis]:
    """``PATH=v1,v2``, ``PATH=LOW..HIGH`` or ``PATH=LOW..HIGH:log`` -> (path, axis).

    >>> parse_axis("model.num_layers=1..6")
    ('model.num_layers', Range(low=1, high=6, log=False))
    """
    path, values = parse_over(text)
    ranges = [value for value in values if _is_range(value)]
    if not ranges:
        return path, Choices(tuple(values))
    if len(values) > 1:
        raise ConfigError(f"--over {text}: a range such as {ranges[0]} stands alone, without other values")
    return path, _range(text, ranges[0])


def check_axes(config: Config, axes: Mapping[str, Axis]) -> None:
    """Raises ConfigError if two values of an axis are equal, however they are written (0.1 and 1e-1).

    Also raises ConfigError for a range of real numbers (1e2..1e3) for a setting that takes integers.
    """
    for path, axis in axes.items():
        if isinstance(axis, Range) and not axis.whole and axis.low == int(axis.low):
            _check_between(config, path, axis)
        seen: dict[str, str] = {}
        for value in axis.values if isinstance(axis, Choices) else ():
            earlier = seen.setdefault(_meaning(config, path, value), value)
            if earlier is not value:
                raise ConfigError(f"--over {path}: {earlier} and {value} are the same value; leave one out")


def _check_between(config: Config, path: str, axis: Range) -> None:
    takes = lambda value: _meaning(config, path, value) != repr(float(value))
    between = axis.text(axis.low + 0.618034 * (axis.high - axis.low))
    if takes(repr(axis.low)) and not takes(between):
        raise ConfigError(
            f"--over {path}={axis.low}..{axis.high}: a range of real numbers, such as {between}, which {path} does not "
            f"take; write whole ends as {int(axis.low)}..{int(axis.high)}"
        )


def _meaning(config: Config, path: str, value: str) -> str:
    """A text that is equal for equal values.

    If the config cannot take the value alone, for example if another axis sets the kind that has this setting, the
    value is read as a number, a constant or a text.
    """
    try:
        return json.dumps(config.override([(path, value)]).resolved)
    except ConfigError:
        number = _number(value)
        constant = value.lower() if value.lower() in ("none", "true", "false") else value
        return constant if number is None else repr(float(number))


def only_values(axes: Mapping[str, Axis]) -> dict[str, tuple[str, ...]]:
    """Path -> values, for a sweep over all combinations. Raises ConfigError if an axis is a range."""
    for path, axis in axes.items():
        if isinstance(axis, Range):
            raise ConfigError(f"--over {path}={axis.low}..{axis.high}: ranges need --search=random or tpe")
    return {path: axis.values for path, axis in axes.items() if isinstance(axis, Choices)}


def _is_range(value: str) -> bool:
    """Whether ``..`` stands beside a number. In a file path it does not, so a path is not a range."""
    low, dots, rest = value.partition("..")
    return bool(dots) and (_number(low) is not None or _number(rest.partition(":")[0]) is not None)


def _range(text: str, value: str) -> Range:
    low_text, _, rest = value.partition("..")
    high_text, colon, scale = rest.partition(":")
    low, high = _number(low_text), _number(high_text)
    if low is None or high is None or (colon and scale != "log"):
        raise ConfigError(f"--over {text}: expected LOW..HIGH or LOW..HIGH:log, two numbers")
    if not low < high:
        raise ConfigError(f"--over {text}: {low_text} is not below {high_text}")
    if colon and low <= 0:
        raise ConfigError(f"--over {text}: {low_text} has no logarithm; a range with :log is above 0")
    return Range(low, high, log=bool(colon))


def _number(text: str) -> float | None:
    """The number that a text spells, as an int or a float; None if it is not a finite number."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
