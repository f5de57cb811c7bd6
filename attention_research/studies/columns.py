"""The columns of a table: the number of a trial that a column shows, and its format.

The columns of an evaluation are described by the `metrics` of its class (`tasks.evaluation_protocol.Metric`). They are
read from the source file, so that planning or drawing a table imports no evaluation and no JAX.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attention_research import registry
from attention_research.config.errors import ConfigError, offer
from attention_research.config.schema import home_of_base, source
from attention_research.tasks import evaluation_protocol
from attention_research.tasks.evaluation_protocol import Floor, Metric


@dataclasses.dataclass(frozen=True)
class Column:
    """``key`` names a number of a trial (``train.loss``); ``spread`` prints its standard deviation over seeds.

    ``at_points`` repeats the column for every value of the study's axis; ``fitted`` prints the power p of the fit
    `value ~ point**p` instead, over all points for each seed. ``better`` says which direction is better. ``possible``
    are the least and the largest possible value.
    """

    key: str
    title: str
    text: Callable[[float], str] = lambda value: f"{value:,.2f}"
    spread: bool = True
    at_points: bool = False
    fitted: bool = False
    better: str = ""
    possible: tuple[float, float] = (-math.inf, math.inf)

    def clipped(self, value: float) -> float:
        """The nearest possible value.

        >>> Column("evaluate.bleu", "BLEU", possible=(0.0, 100.0)).clipped(-0.3)
        0.0
        """
        return min(max(value, self.possible[0]), self.possible[1])


def fixed(digits: int, scale: float = 1.0) -> Callable[[float], str]:
    """A format with ``digits`` digits after the point, for the value times ``scale``.

    >>> fixed(1, scale=1e-6)(1_842_176)
    '1.8'
    """
    return lambda value: f"{value * scale:,.{digits}f}"


def brief(value: float, digits: int = 2) -> str:
    """A number in a sentence, with `digits` significant digits, and with a power of ten only if it is small.

    >>> brief(0.00001234), brief(0.5), brief(431.6), brief(float("inf"))
    ('1.2e-05', '0.5', '432', 'inf')
    """
    return f"{value:,.0f}" if 10**digits <= abs(value) < float("inf") else f"{value:.{digits}g}"


def significant(digits: int, scale: float = 1.0) -> Callable[[float], str]:
    """A format with ``digits`` significant digits, without powers of ten.

    >>> significant(3)(0.0123456), significant(3)(14321)
    ('0.0123', '14,300')
    """

    def text(value: float) -> str:
        value *= scale
        if value == 0 or not abs(value) < float("inf"):
            return f"{value:g}"
        rounded = float(f"{value:.{digits}g}")
        after = max(0, digits - 1 - _magnitude(rounded))
        return f"{rounded:,.{after}f}"

    return text


def exponent(points: Sequence[float], values: Sequence[float]) -> float | None:
    """The power p of the least-squares fit `value ~ point**p`; None with fewer than two points or values not above 0.

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


def metrics_of(kind: str) -> tuple[Metric, ...]:
    """The metrics of a kind of evaluation. Raises KeyError for an unknown kind."""
    return _declared(registry.FAMILIES["evaluation"][kind])


def metrics() -> Iterator[Metric]:
    """The metrics of all kinds, in the order of the registry. A name appears once for each kind that has it."""
    for kind in registry.FAMILIES["evaluation"]:
        yield from metrics_of(kind)


def evaluated(name: str, stage: str = "evaluate") -> Column:
    """The column of a metric by its name, or by "NAME.METRIC" for a further evaluation. Raises ConfigError for an
    unknown metric.

    >>> column = evaluated("bleu")
    >>> column.key, column.title, column.better, column.text(21.437)
    ('evaluate.bleu', 'BLEU', 'higher', '21.4')
    """
    found = {metric.name: metric for metric in reversed(list(metrics()))}
    metric_name = name.rpartition(".")[2]
    if metric_name not in found:
        raise ConfigError(f"column {stage}.{name}: no evaluation has such a metric; {offer(metric_name, found)}")
    metric = found[metric_name]
    text = significant(metric.digits) if metric.significant else fixed(metric.digits)
    return Column(f"{stage}.{name}", metric.title, text, better=metric.better, possible=metric.possible)


def stored_floors() -> list[tuple[Metric, Floor]]:
    """The floors that evaluations store with their scores, each with its metric, without repetition."""
    return list(dict.fromkeys((metric, floor) for metric in metrics() for floor in metric.floors if floor.stored))


def floor_titles() -> dict[str, str]:
    """Slug of a floor -> the name of its line in a table."""
    return {floor.slug: floor.title for metric in metrics() for floor in metric.floors}


def _declared(where: str) -> tuple[Metric, ...]:
    path = source(where.partition(":")[0])
    assert path is not None, where
    return _read(where, path, path.stat().st_mtime_ns)


@functools.cache
def _read(where: str, path: Path, stamp: int) -> tuple[Metric, ...]:
    """The `metrics` of the class or its nearest base. They may include those of another class:
    `(*Other.metrics, ...)`."""
    del stamp  # a changed file is read again
    module, _, name = where.partition(":")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)

    def of_class(base: ast.expr) -> tuple[Metric, ...]:
        home = home_of_base(tree, module, base)
        return () if home is None else _declared(":".join(home))

    for item in node.body:
        targets = item.targets if isinstance(item, ast.Assign) else [getattr(item, "target", ast.Constant(None))]
        if isinstance(item, ast.Assign | ast.AnnAssign) and item.value and ast.unparse(targets[0]) == "metrics":
            others = [one.value for one in ast.walk(item.value) if isinstance(one, ast.Attribute)]
            names: dict[str, Any] = {ast.unparse(one): SimpleNamespace(metrics=of_class(one)) for one in others}
            value = ast.fix_missing_locations(ast.Expression(item.value))
            return eval(compile(value, str(path), "eval"), {**vars(evaluation_protocol), **names})
    return next(filter(None, map(of_class, node.bases)), ())


PERPLEXITY, BLEU, ACCURACY, F1 = map(evaluated, ("perplexity", "bleu", "accuracy", "f1"))
#: BLEU on the test sources that are unlike all training sources (`near` of the evaluation).
FAR_BLEU = Column("evaluate.far_bleu", "BLEU far from training", fixed(1), better="higher")

#: The columns of a study that trains and evaluates translation models.
QUALITY = (PARAMETERS, FLOPS, STEPS_PER_SECOND, PEAK_MEMORY, LOSS, PERPLEXITY, BLEU)
