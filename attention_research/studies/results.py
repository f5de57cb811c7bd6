"""Collects the results of a study's trials, and the published cells of its table."""

from __future__ import annotations

import csv
import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from attention_research.errors import ConfigError
from attention_research.studies import competence, floors, footnotes
from attention_research.studies.columns import PEAK_MEMORY, STEPS_PER_SECOND, Column, exponent, stored_floors
from attention_research.studies.staleness import OLD, Current, Stale, State, states_of
from attention_research.studies.study import Row, Study
from attention_research.studies.trials import Trial

#: The note on stale trials in tables of an earlier version, whose fingerprint was a hash of all sources.
MARK = "stale (produced by an earlier version of the code)"
#: The columns of a published table that are not numbers: where a row's numbers stand, which is a note of the table, and
#: what differs from the published system (`studies.reproductions`).
SOURCE, DIFFERS = "source", "differs"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A planned trial with its result, or with the reason why it has none."""

    trial: Trial
    result: Mapping[str, Any] | None
    state: State = Current()
    reason: str = ""

    @property
    def stale(self) -> bool:
        """Whether a different program would run now."""
        return isinstance(self.state, Stale)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a table: the values by seed, and the printed text."""

    values: tuple[float, ...] = ()
    text: str = ""

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over seeds; None with fewer than two seeds or a value that is not finite."""
        several = len(self.values) > 1 and all(map(math.isfinite, self.values))
        return statistics.stdev(self.values) if several else None


@dataclasses.dataclass(frozen=True)
class Results:
    """All entries of a study at a scale, in the order of the table.

    `marked` are the rows that the recorded table marks as stale with `MARK`, the note of an earlier version. Records of
    that version do not hold their program, so the mark stays until the rows run again. `floors` are entries of
    `studies.floors`.
    """

    study: Study
    scale: str
    rows: tuple[Row, ...]
    entries: tuple[Entry, ...]
    marked: frozenset[str] = frozenset()
    floors: tuple[Entry, ...] = ()

    def floor(self, name: str, key: str, row: str = "") -> float | None:
        """The score of a floor, by its slug, on the data of a row, or of any row if `row` is empty.

        `key` is a key such as ``evaluate.perplexity``. None if the floor was not measured.
        """
        return floors.value(self.floors, name, key, row)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table at this scale."""
        size = self.study.scales.get(self.scale)
        return (size and size.columns) or self.study.columns

    @property
    def points(self) -> tuple[int, ...]:
        return self.study.scale(self.scale).points

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the scale gives to the measuring functions."""
        return self.study.scale(self.scale).settings

    @property
    def seeds(self) -> int:
        """The largest number of random seeds of a row."""
        found = {(entry.trial.row, entry.trial.seed) for entry in self.entries}
        return max(Counter(row for row, _ in found).values(), default=0)

    def of(self, row: str, point: int | None = None) -> list[Entry]:
        """The entries of a row, at all points or at one."""
        return [e for e in self.entries if e.trial.row == row and (point is None or e.trial.point == point)]

    def values(self, row: str, key: str, point: int | None = None) -> tuple[float, ...]:
        """The numbers of a row under a key such as ``train.loss``, one for each finished seed."""
        stage, name = key.split(".", 1)
        found = (e.result["stages"].get(stage, {}).get(name) for e in self.of(row, point) if e.result)
        return tuple(value for value in found if value is not None)

    def by_seed(self, row: str, key: str, worst: float) -> dict[tuple[int, int | None], tuple[Entry, Any]]:
        """(seed, point) -> the entry of the trial and its number. `worst` is the number of a diverged run."""
        stage, name = key.split(".", 1)
        found = {}
        for entry in self.of(row):
            if not entry.result:
                continue
            numbers = entry.result["stages"].get(stage, {})
            value = numbers.get(name)
            if value is None and (entry.result["diverged"] or numbers.get("diverged")):
                value = worst
            if value is not None:
                found[entry.trial.seed, entry.trial.point] = entry, value
        return found

    def judged(self, row: str, key: str, *, higher: bool) -> list[Any]:
        """The numbers of all runs of a row, of which a diverged run has the worst."""
        return [value for _, value in self.by_seed(row, key, -math.inf if higher else math.inf).values()]

    def mean(self, row: str, key: str) -> float | None:
        """The mean over the finished seeds of a row; None without any."""
        values = self.values(row, key)
        return statistics.fmean(values) if values else None

    def mean_list(self, row: str, key: str) -> list[float]:
        """The elementwise mean over seeds of a key that holds a list; empty without any.

        An element is NaN if it is None for some seed.
        """
        columns = zip(*self.values(row, key), strict=True)
        return [math.nan if None in at else statistics.fmean(at) for at in columns]

    def powers(self, row: str, key: str) -> tuple[float, ...]:
        """For each seed with a number at every point, the power of the fit `value ~ point**power`."""
        numbers = {place: value for place, (_, value) in self.by_seed(row, key, math.nan).items()}
        seeds = dict.fromkeys(seed for seed, _ in numbers)
        by_seed = ([numbers.get((seed, point), math.nan) for point in self.points] for seed in seeds)
        powers = (exponent(self.points, values) for values in by_seed if all(map(math.isfinite, values)))
        return tuple(power for power in powers if power is not None)

    def diverged(self, row: str) -> int:
        """The number of finished trials of a row that diverged."""
        return sum(bool(entry.result and entry.result["diverged"]) for entry in self.of(row))

    def cell(self, row: str, column: Column, point: int | None = None) -> Cell:
        """The cell of a row in a column, with its printed text."""
        values = self.powers(row, column.key) if column.fitted else self.values(row, column.key, point)
        if not values:
            return Cell()
        cell = Cell(values, column.text(statistics.fmean(values)))
        if column.spread and cell.deviation is not None:
            cell = Cell(values, f"{cell.text} ± {column.text(cell.deviation)}")
        return cell

    def samples(self) -> dict[str, list[Mapping[str, Any]]]:
        """Name of a row -> the samples of its first seed, for the rows whose evaluation has samples."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for entry in self.entries:
            samples = entry.result["stages"].get("evaluate", {}).get("samples", []) if entry.result else []
            if samples and {"source", "reference", "translation"} <= samples[0].keys():
                found.setdefault(entry.trial.name, samples)
        return found

    def below_floor(self, row: str) -> str:
        """The reason why a row is below the quality floor, or an empty string.

        The row must be better than every floor that its evaluation stores (`columns.stored_floors`): for example, its
        perplexity must be below that of a unigram model, and its BLEU above that of copying the source. BLEU counts
        sequences of four words, so a row whose sampled references are all shorter need not reach the floor of BLEU.
        A row with a diverged run is below every floor.
        """
        evaluated = [entry.result["stages"].get("evaluate", {}) for entry in self.of(row) if entry.result]
        samples = [sample for scores in evaluated for sample in scores.get("samples", [])]
        no_bleu = bool(samples) and max(map(_longest_reference, samples)) < 4
        missed = []
        for metric, floor in stored_floors():
            if no_bleu and metric.name == "bleu":
                continue
            key, theirs = f"evaluate.{metric.name}", self.values(row, f"evaluate.{floor.stored}")
            if self.values(row, key) and theirs:
                mean, bound = statistics.fmean(self.judged(row, key, higher=metric.higher)), statistics.fmean(theirs)
                if not (mean > bound if metric.higher else mean < bound):  # NaN misses the floor too
                    missed.append(metric.missed(floor, bound))
        return f"no better than a baseline: {' and '.join(missed)}" if missed else ""

    def notes(self, row: str) -> list[str]:
        """The notes of a row: not run and why, missing seeds, stopped early, stale, task not learned, and others."""
        entries = self.of(row)
        if not entries:
            printed = any(row == one.id and one.scales == () for one in self.rows)
            return ["published numbers only" if printed else f"not run at {self.scale}"]
        missing = [entry for entry in entries if entry.result is None]
        reasons = list(dict.fromkeys(entry.reason for entry in missing))
        said = []
        if missing:
            count = "" if len(missing) == len(entries) else f"{len(missing)} of {len(entries)} trials "
            said.append(count + ", ".join(reasons))
        said += dict.fromkeys(
            f"diverged ({e.result['diverged']})" for e in entries if e.result and e.result["diverged"]
        )
        for result in (entry.result for entry in entries if entry.result):
            tuned = [(name, one["diverged"]) for name, one in result["stages"].items() if "diverged" in one]
            said += [f"{name} diverged ({line})" for name, line in tuned]
            said += [f"fine-tuning {name} failed: {line}" for name, line in result.get("failed", {}).items()]
        said = list(dict.fromkeys(said))
        said += dict.fromkeys(e.result["stopped"] for e in entries if e.result and "stopped" in e.result)
        together = {e.result["stages"].get("train", {}).get("replicas") for e in entries if e.result} - {None}
        joint = " (speed and memory are those of the joint run)" if self.shows_training else ""
        said += [f"{number} trials trained together{joint}" for number in sorted(together)]
        said += dict.fromkeys(entry.state.note for entry in entries if entry.stale)
        if row in self.marked and OLD in {entry.state for entry in entries}:
            said.append(MARK)
        return [*said, *filter(None, [self.below_floor(row), competence.note(self, row)])]

    @property
    def shows_training(self) -> bool:
        """Whether the table shows the speed or the memory of training."""
        return any(column.key in (STEPS_PER_SECOND.key, PEAK_MEMORY.key) for column in self.columns)


def _longest_reference(sample: Mapping[str, Any]) -> int:
    """The number of words of a sample's reference, or of its longest reference if it has several, as captions do."""
    references = sample.get("reference", "")
    return max((len(text.split()) for text in ([references] if isinstance(references, str) else references)), default=0)


class Source(Protocol):
    """A source of trial results, such as `trial_folders.Folder`. `recorded` is the folder of the record."""

    @property
    def recorded(self) -> Path | None: ...

    def result(self, trial: Trial) -> Mapping[str, Any] | None:
        """The result of a finished trial, or None."""

    def why_missing(self, trial: Trial) -> str:
        """The reason why a trial has no result."""


def collect(
    study: Study, scale: str, trials: list[Trial], source: Source, report: Callable[[str], None] = lambda line: None
) -> Results:
    """Collects the results of planned trials. Rows with published cells are included even without planned trials."""
    planned, printed = {trial.row for trial in trials}, published(study, scale)
    rows = [row for row in study.rows if row.id in planned or row.id in printed]
    found = [(trial, source.result(trial)) for trial in trials]
    finished = [(trial, result) for trial, result in found if result is not None]
    states = iter(states_of(finished, report))
    entries = [
        Entry(trial, None, reason=source.why_missing(trial))
        if result is None
        else Entry(trial, result, state=next(states))
        for trial, result in found
    ]
    trained = tuple(entry for entry in entries if entry.trial.row != floors.FLOORS)
    below = tuple(entry for entry in entries if entry.trial.row == floors.FLOORS)
    return Results(study, scale, tuple(rows), trained, _marked(rows, source.recorded), below)


def _marked(rows: list[Row], recorded: Path | None) -> frozenset[str]:
    """The ids of the rows whose line in the recorded table contains `MARK`."""
    try:
        text = "" if recorded is None else (recorded / "table.md").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    names = {line[0] for line in footnotes.parse(text) if MARK in line[-1]}
    return frozenset(row.id for row in rows if row.name in names)


def published(study: Study, scale: str = "") -> dict[str, dict[str, str]]:
    """Row id -> the cells of the published table, from the study's CSV.

    The column ``row`` holds the ids. A line with a scale in the column ``scale`` applies to that scale only.
    """
    if study.published is None:
        return {}
    with open(study.file(study.published), encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    if table and "row" not in table[0]:
        raise ConfigError(f"{study.file(study.published)}: has no column 'row'")
    lines = [line for line in table if line.pop("scale", "") in ("", scale)]
    return {line.pop("row"): {name: cell for name, cell in line.items() if cell} for line in lines}


def finite(value: float) -> bool:
    """Whether a value is a finite number, which a figure can show."""
    return value is not None and math.isfinite(value)
