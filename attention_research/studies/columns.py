"""The columns of a table: which number of a trial stands there, and how it is printed."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence


@dataclasses.dataclass(frozen=True)
class Column:
    """``key`` names a number of a trial (``train.loss``); ``spread`` prints its standard deviation over seeds.

    ``at_points`` repeats the column for every value of the study's axis; ``fitted`` prints the power p of value ~
    point**p instead, fitted over all points for each seed. ``better`` says which way is better.
    """

    key: str
    title: str
    text: Callable[[float], str] = lambda value: f"{value:,.2f}"
    spread: bool = True
    at_points: bool = False
    fitted: bool = False
    better: str = ""


def fixed(digits: int, scale: float = 1.0) -> Callable[[float], str]:
    """A format with that many digits after the point, of the value times ``scale``."""
    return lambda value: f"{value * scale:,.{digits}f}"


def significant(digits: int, scale: float = 1.0) -> Callable[[float], str]:
    """A format with that many significant digits, never in powers of ten."""

    def text(value: float) -> str:
        value *= scale
        if value == 0 or not abs(value) < float("inf"):
            return f"{value:g}"
        rounded = float(f"{value:.{digits}g}")
        after = max(0, digits - 1 - _magnitude(rounded))
        return f"{rounded:,.{after}f}"

    return text


def exponent(points: Sequence[float], values: Sequence[float]) -> float | None:
    """The power p of the least-squares fit value ~ point**p; None with fewer than two points or values not above 0.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    if len(points) < 2 or min(values) <= 0:
        return None
    return statistics.linear_regression([math.log(p) for p in points], [math.log(v) for v in values]).slope


def _magnitude(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


PARAMETERS = Column("inspect.parameters", "parameters", lambda value: f"{round(value):,}", spread=False)
FLOPS = Column("inspect.flops", "GFLOP/step", significant(3, 1e-9), spread=False)
STEPS_PER_SECOND = Column("train.steps_per_second", "steps/s", significant(3), spread=False, better="higher")
PEAK_MEMORY = Column("train.peak_memory_bytes", "peak memory MB", fixed(0, 1e-6), spread=False, better="lower")
LOSS = Column("train.loss", "loss", fixed(2), better="lower")
PERPLEXITY = Column("evaluate.perplexity", "perplexity", significant(3), better="lower")
BLEU = Column("evaluate.bleu", "BLEU", fixed(1), better="higher")
ACCURACY = Column("evaluate.accuracy", "accuracy, %", fixed(1), better="higher")
F1 = Column("evaluate.f1", "F1", fixed(1), better="higher")

#: The columns of a study that trains and evaluates translation models.
QUALITY = (PARAMETERS, FLOPS, STEPS_PER_SECOND, PEAK_MEMORY, LOSS, PERPLEXITY, BLEU)
