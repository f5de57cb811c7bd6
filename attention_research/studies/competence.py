"""Competence: decides whether the models of a study have learned their task, before a claim about them is judged.

A study sets bars. A bar names a reference row, a metric, and what the row must beat: a floor or an absolute line. A
floor is the score of a simple baseline on the same data, such as a trigram model, copying the source or the most
frequent class (`Results.floor`). A claim of kind "count" or "exact" needs no trained model. Any other claim is refused
unless every bar that the study sets for it is reached. A claim over several tasks is judged on the learned tasks.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attention_research.errors import ConfigError
from attention_research.studies.columns import stored_floors

if TYPE_CHECKING:
    from attention_research.studies.results import Results
    from attention_research.studies.study import Study

UNSAID = "the study does not say when its models have learned their task"
#: The name of a fixed threshold, in place of a floor's.
THRESHOLD = "threshold"
#: Kinds of claims that need no trained model.
UNTRAINED_KINDS = ("count", "exact")


@dataclasses.dataclass(frozen=True)
class Competence:
    """A bar: the score that shows that models have learned a task.

    ``row`` is the reference row and ``key`` its metric, such as "evaluate.perplexity". Of a metric that is a list (by
    depth or by length), the best entry counts. The mean over seeds must be better than the ``floor`` by at least
    ``margin`` in the metric's unit, or reach the absolute ``line``. A floor is a name of `Results.floor`, the name of a
    number of the same stage ("majority"), or the id of a row. ``higher`` is True if higher numbers are better. A row
    with a diverged run reaches no bar.

    ``claims`` are the claims that need this bar (empty: all claims of the study about trained models). ``rows`` are
    patterns for the ids of this task's rows (empty: all). Each of these rows that has the metric must reach the same
    bar before a claim can say that it is better than another row. ``scales`` are the scales at which the task is
    measured (empty: all).

    >>> bar = Competence("standard", "evaluate.perplexity", floor="trigram", rows=("standard*",))
    >>> bar.covers("standard_wide"), bar.covers("lstm")
    (True, False)
    """

    row: str
    key: str
    floor: str = ""
    line: float | None = None
    margin: float = 0.0
    higher: bool = False
    claims: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.floor) == (self.line is not None):
            raise ConfigError(f"competence of {self.row!r}: give either a floor or a line")
        if "." not in self.key:
            raise ConfigError(f"competence of {self.row!r}: {self.key!r} is not of the form stage.metric")

    def covers(self, row: str) -> bool:
        """Whether a row belongs to this task. The row that is the floor does not."""
        matches = not self.rows or any(fnmatch.fnmatchcase(row, pattern) for pattern in self.rows)
        return row == self.row or (matches and row != self.floor)


def translates(row: str, *rows: str, claims: tuple[str, ...] = ()) -> tuple[Competence, Competence]:
    """The two bars for a translator: the perplexity of a trigram model, and a BLEU of 3 points more than a translation
    memory that copies the source if it has no similar one, on sources far from all training sources."""
    return (
        Competence(row, "evaluate.perplexity", "trigram", claims=claims, rows=rows),
        Competence(row, "evaluate.far_bleu", "memory_else_copy", margin=3, higher=True, claims=claims, rows=rows),
    )


@dataclasses.dataclass(frozen=True)
class Met:
    """The metric of a row and what it must beat. ``ours`` or ``floor`` is None if it was not measured.

    >>> print(Met(False, "perplexity", 89.0, 31.0, 0.0, "standard", "trigram"))
    perplexity 89, trigram 31
    """

    met: bool
    metric: str
    ours: float | None
    floor: float | None
    margin: float
    row: str = ""
    name: str = ""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("met", "metric", "ours", "floor", "margin")}

    @property
    def wanted(self) -> str:
        """What the metric must be, in words: the same for all rows of a task."""
        bound = "?" if self.floor is None else _number(self.floor)
        if self.name == THRESHOLD:
            return f"{self.metric} must reach {bound}"
        by = f" by {_number(self.margin)}" if self.margin else ""
        return f"{self.metric} must be better{by} than {bound} ({self.name.replace('_', ' ')})"

    def __str__(self) -> str:
        if not self.metric:
            return UNSAID
        ours = "was not measured"
        if self.ours is not None:
            ours = _number(self.ours) if math.isfinite(self.ours) else "diverged"
        theirs = f"the floor `{self.name}` was not measured"
        if self.floor is not None:
            theirs = f"{self.name} {_number(self.floor)}"
        return f"{self.metric} {ours}, {theirs}" + (f", margin {_number(self.margin)}" if self.margin else "")


#: The outcome for a study that sets no bar.
NOT_SAID = Met(False, "", None, None, 0.0)


def of_claim(study: Study, claim: Mapping[str, str], scale: str = "") -> tuple[Competence, ...] | None:
    """The bars that a claim of a study needs at a scale (an empty `scale`: at any scale).

    Returns () if the claim needs no trained model, and None if the study sets no bar for it.
    """
    if claim.get("kind") in UNTRAINED_KINDS or claim["id"] in study.untrained or study.competence == ():
        return ()
    bars = (bar for bar in study.competence or () if not bar.claims or claim["id"] in bar.claims)
    return tuple(bar for bar in bars if not scale or not bar.scales or scale in bar.scales) or None


def reached(results: Results, bar: Competence, row: str | None = None) -> Met:
    """Whether a row reaches a bar. The default row is the bar's reference row."""
    row = row or bar.row
    metric = bar.key.split(".", 1)[1].replace("_", " ")
    ours = _mean(results.judged(row, bar.key, higher=bar.higher), bar.higher)
    floor = bar.line if bar.line is not None else _floor(results, bar, row)
    met = False
    if ours is not None and floor is not None:
        gain = ours - floor if bar.higher else floor - ours
        met = gain >= bar.margin and (gain > 0 or bar.line is not None)  # False for NaN
    return Met(met, metric, ours, floor, bar.margin, row, bar.floor or THRESHOLD)


def _mean(values: Sequence[Any], higher: bool) -> float | None:
    """The mean of the numbers of several seeds, of which a list counts as its best entry; None without any."""
    best = max if higher else min
    numbers = [best(v for v in value if v is not None) if isinstance(value, list) else value for value in values]
    return statistics.fmean(numbers) if numbers else None


def _floor(results: Results, bar: Competence, row: str) -> float | None:
    """The value of the floor: from its own trial, else from the row's evaluation, else from the row that it names."""
    stage = bar.key.split(".", 1)[0]
    found = results.floor(bar.floor, bar.key, row)
    stored = (one.stored for _, one in stored_floors() if one.slug == bar.floor)
    names = (next(stored, bar.floor), bar.floor)
    for where, key in (*((row, f"{stage}.{name}") for name in names), (bar.floor, bar.key)):
        found = _mean(results.values(where, key), bar.higher) if found is None else found
    return found


def _tasks(bars: Sequence[Competence]) -> list[list[Competence]]:
    """The bars grouped by their rows: one group is a task. A task is learned if all of its bars are reached."""
    return [[bar for bar in bars if bar.rows == rows] for rows in dict.fromkeys(bar.rows for bar in bars)]


def _learned(results: Results, task: Sequence[Competence]) -> bool:
    return all(reached(results, bar).met for bar in task)


def of_results(results: Results, claim: Mapping[str, str]) -> tuple[Met, ...] | None:
    """The outcome of each bar of a claim; None if the claim needs no trained model.

    The bars of learned tasks come first. If no task is learned, the bars that are not reached come first. The claim is
    refused if the first bar is not met.
    """
    bars = of_claim(results.study, claim, results.scale)
    if bars is None:
        return (NOT_SAID,)
    tasks = sorted(_tasks(bars), key=lambda task: not _learned(results, task))
    found = [reached(results, bar) for task in tasks for bar in task]
    if found and not _learned(results, tasks[0]):
        found = sorted(found, key=lambda one: one.met)
    return tuple(found) or None


def refused(found: tuple[Met, ...] | None) -> str:
    """The reason why a claim is not tested, or an empty string."""
    if not found or found[0].met:
        return ""
    return f"the models have not learned the task ({found[0]})" if found[0].metric else UNSAID


def narrowed(results: Results, claim: Mapping[str, str]) -> Results:
    """The results that are passed to the function that judges a claim.

    They have only the bars of this claim. If some of its tasks are learned, the rows of the other tasks are left out.
    """
    bars = of_claim(results.study, claim, results.scale) or ()
    learned = [bar for task in _tasks(bars) if _learned(results, task) for bar in task]
    missed = [bar for bar in bars if bar not in learned] if learned else []
    hidden = {
        row.id for row in results.rows
        if any(bar.covers(row.id) for bar in missed) and not any(bar.covers(row.id) for bar in learned)
    }  # fmt: skip
    study = dataclasses.replace(results.study, competence=bars)
    entries = tuple(entry for entry in results.entries if entry.trial.row not in hidden)
    return dataclasses.replace(results, study=study, entries=entries)


def missed(results: Results, row: str) -> list[Met]:
    """The bars of the study that a row does not reach, among those whose metric it has."""
    bars = [bar for bar in results.study.competence or () if bar.covers(row) and results.values(row, bar.key)]
    return [one for one in (reached(results, bar, row) for bar in bars) if not one.met]


def refusal(results: Results, row: str) -> str:
    """The reason why no claim may rest on a row that should have learned its task, or an empty string."""
    found = missed(results, row)
    return f"{row} has not learned the task ({found[0]})" if found else ""


def note(results: Results, row: str) -> str:
    """The note of a table on a row that has not learned its task, without bars whose floor was not measured.

    It does not repeat the row's own numbers, so that rows share the note.
    """
    found = [one for one in missed(results, row) if one.floor is not None]
    return f"has not learned the task: {' and '.join(one.wanted for one in found)}" if found else ""


def lines(found: Sequence[Met] | None) -> list[str]:
    """The lines of a recorded table about the bars of a claim, one for each bar; `parse` reads them.

    >>> lines([Met(False, "perplexity", 89.0, 31.0, 0.0, "standard", "trigram")])
    ['Not learned: perplexity of `standard` 89, trigram 31, margin 0.']
    >>> lines(None)
    ['No trained model is needed.']
    """
    return [NOTHING] if found is None else [_line(one) for one in found]


NOTHING = "No trained model is needed."
_LINE = re.compile(
    r"^(?P<said>Learned|Not learned): (?P<metric>.+?) of `(?P<row>[^`]+)` (?P<ours>not measured|[-+.\deinfa]+), "
    r"(?P<name>[\w-]+) (?P<floor>not measured|[-+.\deinfa]+), margin (?P<margin>[.\de+-]+)\.$",
    re.MULTILINE,
)


def _line(one: Met) -> str:
    if not one.metric:
        return f"Not learned: {UNSAID}."
    ours, floor = ("not measured" if value is None else _number(value) for value in (one.ours, one.floor))
    said = "Learned" if one.met else "Not learned"
    return f"{said}: {one.metric} of `{one.row}` {ours}, {one.name} {floor}, margin {_number(one.margin)}."


def parse(text: str) -> tuple[Met, ...] | None:
    """Reads what `lines` wrote, anywhere in a text. Returns (NOT_SAID,) if the text has no such line."""
    if re.search(f"^{re.escape(NOTHING)}$", text, re.MULTILINE):
        return None
    number = lambda text: None if text == "not measured" else float(text)
    found = [
        Met(
            met=one["said"] == "Learned",
            metric=one["metric"],
            ours=number(one["ours"]),
            floor=number(one["floor"]),
            margin=float(one["margin"]),
            row=one["row"],
            name=one["name"],
        )
        for one in _LINE.finditer(text)
    ]
    return tuple(found) or (NOT_SAID,)


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}" if math.isfinite(value) else str(value)
