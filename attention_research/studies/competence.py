"""Competence: decides whether the models of a study have learned their task, before a claim about them is judged.

A study sets criteria. A criterion names a reference row, a metric, and what the row must beat: a floor or a fixed
threshold. A floor is the score of a simple baseline on the same data, such as a trigram model, copying the source or
the most frequent class (`Results.floor`). A claim of kind "count" or "exact" needs no trained model. Any other claim is
refused unless every criterion that the study sets for it is met. A claim over several tasks is judged on the learned
tasks.
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
    """A criterion: the score that shows that models have learned a task.

    ``row`` is the reference row and ``key`` its metric, such as "evaluate.perplexity". Of a metric that is a list (by
    depth or by length), the best entry counts. The mean over seeds must be better than the ``floor`` by at least
    ``margin`` in the metric's unit, or reach the threshold ``line``. A floor is a name of `Results.floor`, the name of
    a number of the same stage ("majority"), or the id of a row. ``higher`` is True if higher numbers are better. A row
    with a diverged run meets no criterion.

    ``claims`` are the claims that need this criterion (empty: all claims of the study about trained models). ``rows``
    are patterns for the ids of this task's rows (empty: all). Each of these rows that has the metric must meet the same
    criterion before a claim can say that it is better than another row. ``scales`` are the scales at which the task is
    measured (empty: all).

    >>> criterion = Competence("standard", "evaluate.perplexity", floor="trigram", rows=("standard*",))
    >>> criterion.covers("standard_wide"), criterion.covers("lstm")
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
    """The two criteria for a translator: the perplexity of a trigram model, and a BLEU of 3 points more than a
    translation memory that copies the source if it has no similar one, on sources far from all training sources."""
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


#: The outcome for a study that sets no criterion.
NOT_SAID = Met(False, "", None, None, 0.0)


def of_claim(study: Study, claim: Mapping[str, str], scale: str = "") -> tuple[Competence, ...] | None:
    """The criteria that a claim of a study needs at a scale (an empty `scale`: at any scale).

    Returns () if the claim needs no trained model, and None if the study sets no criterion for it.
    """
    if claim.get("kind") in UNTRAINED_KINDS or claim["id"] in study.untrained or study.competence == ():
        return ()
    criteria = (one for one in study.competence or () if not one.claims or claim["id"] in one.claims)
    return tuple(one for one in criteria if not scale or not one.scales or scale in one.scales) or None


def reached(results: Results, criterion: Competence, row: str | None = None) -> Met:
    """Whether a row meets a criterion. The default row is the reference row of the criterion."""
    row = row or criterion.row
    metric = criterion.key.split(".", 1)[1].replace("_", " ")
    ours = _mean(results.judged(row, criterion.key, higher=criterion.higher), criterion.higher)
    floor = criterion.line if criterion.line is not None else _floor(results, criterion, row)
    met = False
    if ours is not None and floor is not None:
        gain = ours - floor if criterion.higher else floor - ours
        met = gain >= criterion.margin and (gain > 0 or criterion.line is not None)  # False for NaN
    return Met(met, metric, ours, floor, criterion.margin, row, criterion.floor or THRESHOLD)


def _mean(values: Sequence[Any], higher: bool) -> float | None:
    """The mean of the numbers of several seeds, of which a list counts as its best entry; None without any."""
    best = max if higher else min
    numbers = [best(v for v in value if v is not None) if isinstance(value, list) else value for value in values]
    return statistics.fmean(numbers) if numbers else None


def _floor(results: Results, criterion: Competence, row: str) -> float | None:
    """The value of the floor: from its own trial, else from the row's evaluation, else from the row that it names."""
    stage = criterion.key.split(".", 1)[0]
    found = results.floor(criterion.floor, criterion.key, row)
    stored = (one.stored for _, one in stored_floors() if one.slug == criterion.floor)
    names = (next(stored, criterion.floor), criterion.floor)
    for where, key in (*((row, f"{stage}.{name}") for name in names), (criterion.floor, criterion.key)):
        found = _mean(results.values(where, key), criterion.higher) if found is None else found
    return found


def _tasks(criteria: Sequence[Competence]) -> list[list[Competence]]:
    """The criteria grouped by their rows: one group is a task. A task is learned if all of its criteria are met."""
    return [[one for one in criteria if one.rows == rows] for rows in dict.fromkeys(one.rows for one in criteria)]


def _learned(results: Results, task: Sequence[Competence]) -> bool:
    return all(reached(results, criterion).met for criterion in task)


def of_results(results: Results, claim: Mapping[str, str]) -> tuple[Met, ...] | None:
    """The outcome of each criterion of a claim; None if the claim needs no trained model.

    The criteria of learned tasks come first. If no task is learned, the criteria that are not met come first. The claim
    is refused if the first criterion is not met.
    """
    criteria = of_claim(results.study, claim, results.scale)
    if criteria is None:
        return (NOT_SAID,)
    tasks = sorted(_tasks(criteria), key=lambda task: not _learned(results, task))
    found = [reached(results, criterion) for task in tasks for criterion in task]
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

    They have only the criteria of this claim. If some of its tasks are learned, the rows of the other tasks are left
    out.
    """
    criteria = of_claim(results.study, claim, results.scale) or ()
    learned = [criterion for task in _tasks(criteria) if _learned(results, task) for criterion in task]
    missed = [criterion for criterion in criteria if criterion not in learned] if learned else []
    hidden = {
        row.id for row in results.rows
        if any(one.covers(row.id) for one in missed) and not any(one.covers(row.id) for one in learned)
    }  # fmt: skip
    study = dataclasses.replace(results.study, competence=criteria)
    entries = tuple(entry for entry in results.entries if entry.trial.row not in hidden)
    return dataclasses.replace(results, study=study, entries=entries)


def missed(results: Results, row: str) -> list[Met]:
    """The criteria of the study that a row does not meet, among those whose metric it has."""
    criteria = [one for one in results.study.competence or () if one.covers(row) and results.values(row, one.key)]
    return [one for one in (reached(results, criterion, row) for criterion in criteria) if not one.met]


def refusal(results: Results, row: str) -> str:
    """The reason why no claim may rest on a row that should have learned its task, or an empty string."""
    found = missed(results, row)
    return f"{row} has not learned the task ({found[0]})" if found else ""


def note(results: Results, row: str) -> str:
    """The note of a table on a row that has not learned its task, without criteria whose floor was not measured.

    It does not repeat the row's own numbers, so that rows share the note.
    """
    found = [one for one in missed(results, row) if one.floor is not None]
    return f"has not learned the task: {' and '.join(one.wanted for one in found)}" if found else ""


def lines(found: Sequence[Met] | None) -> list[str]:
    """The lines of a recorded table about the criteria of a claim, one for each; `parse` reads them.

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
