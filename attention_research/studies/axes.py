"""Axes of a sweep: what ``--over`` says of a setting, a list of values or, for a search, a range of numbers.

--over model.self_attention.kind=standard,linformer     one of these
--over model.num_layers=1..6                            a whole number from 1 to 6, since both ends are whole
--over model.dropout_rate=0..0.5                        a real number
--over training.learning_rate=1e-4..1e-2:log            a real number whose logarithm is drawn evenly
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

#: Digits of a drawn real number: what runs, stands in the table and is printed at the end is the same number.
_DIGITS = 6


@dataclasses.dataclass(frozen=True)
class Choices:
    """One of the values, which are texts as an override gives them."""

    values: tuple[str, ...]

    def suggest(self, trial: Any, path: str) -> str:
        """The value that an Optuna trial has, or now gets, under this path."""
        return self.text(trial.suggest_categorical(path, self.values))

    def text(self, value: str) -> str:
        """As an override gives it."""
        return value


@dataclasses.dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is of whole numbers: both ends were written as such."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def suggest(self, trial: Any, path: str) -> str:
        """The value that an Optuna trial has, or now gets, under this path."""
        suggest = trial.suggest_int if self.whole else trial.suggest_float
        return self.text(suggest(path, self.low, self.high, log=self.log))

    def text(self, value: float) -> str:
        """As an override gives it: of a real number six digits, which do not leave the range.

        >>> Range(0.0, 1.0).text(0.12345678), Range(1, 6).text(3)
        ('0.123457', '3')
        """
        if self.whole:
            return str(value)
        return repr(min(max(float(f"{value:.{_DIGITS}g}"), float(self.low)), float(self.high)))


Axis = Choices | Range


def read_axes(over: Sequence[str], overrides: Sequence[tuple[str, Any]] = ()) -> dict[str, Axis]:
    """Path -> axis of all that ``--over`` says; `overrides` are what every row has, and set none of these paths."""
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
    """Raises ConfigError where two values of an axis are the same setting, however they are spelt (0.1 and 1e-1), and
    where a range of real numbers (1e2..1e3) is of a setting that takes whole ones."""
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
    """A text that is equal for equal values. A value that this config cannot take alone, such as a setting of a kind
    that another axis sweeps, is read as a number or a constant where it is one."""
    try:
        return json.dumps(config.override([(path, value)]).resolved)
    except ConfigError:
        number = _number(value)
        constant = value.lower() if value.lower() in ("none", "true", "false") else value
        return constant if number is None else repr(float(number))


def only_values(axes: Mapping[str, Axis]) -> dict[str, tuple[str, ...]]:
    """Path -> values, of axes none of which is a range: those of a sweep over all combinations."""
    for path, axis in axes.items():
        if isinstance(axis, Range):
            raise ConfigError(f"--over {path}={axis.low}..{axis.high}: ranges need --search=random or tpe")
    return {path: axis.values for path, axis in axes.items() if isinstance(axis, Choices)}


def _is_range(value: str) -> bool:
    """Whether dots stand beside a number: ``..`` in a path of files is none."""
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
    """A whole number as an int, another one as a float; None for what is no finite number."""
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
