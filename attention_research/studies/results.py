"""Collects the results of a study's trials, and writes ``results.parquet``, ``table.csv`` and ``table.md`` from them.

A cell is the mean over random seeds, with the sample standard deviation (n - 1) if the column shows it. A cell without
results is blank, and the row's note gives the reason. Notes also mark rows below the quality floor as untrained, and
trials whose program has changed as stale. Records that are not comparable have no note, so that the table does not
depend on the version of JAX that renders it; `status --stale` and the page name them.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from attention_research.errors import ConfigError
from attention_research.studies import competence, floors, footnotes
from attention_research.studies.columns import PEAK_MEMORY, STEPS_PER_SECOND, Column, exponent, stored_floors
from attention_research.studies.comparisons import with_reference
from attention_research.studies.staleness import OLD, Current, Stale, State, states_of
from attention_research.studies.study import Row, Study
from attention_research.studies.trials import Trial

#: The note on stale trials in tables of an earlier version, whose fingerprint was a hash of all sources.
MARK = "stale (produced by an earlier version of the code)"


#: The columns of a published table that are not numbers: where a row's numbers stand, which is a note of the table, and
#: what differs from the printed system (`studies.reproductions`).
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
        """For each seed, the power of the fit `value ~ point**power`.

        Empty unless all points have equally many seeds.
        """
        by_point = [self.values(row, key, point) for point in self.points]
        complete = by_point if len({len(values) for values in by_point}) == 1 else []
        powers = (exponent(self.points, values) for values in zip(*complete, strict=True))
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

    def untrained(self, row: str) -> str:
        """The reason why a row is below the quality floor, or an empty string.

        The row must be better than every floor that its evaluation stores (`columns.stored_floors`): for example, its
        perplexity must be below that of a unigram model, and its BLEU above that of copying the source. BLEU counts
        sequences of four words, so a row whose sampled references are all shorter need not reach the floor of BLEU.
        """
        evaluated = [entry.result["stages"].get("evaluate", {}) for entry in self.of(row) if entry.result]
        samples = [sample for scores in evaluated for sample in scores.get("samples", [])]
        no_bleu = bool(samples) and max(map(_longest_reference, samples)) < 4
        missed = []
        for metric, floor in stored_floors():
            if no_bleu and metric.name == "bleu":
                continue
            ours, theirs = self.values(row, f"evaluate.{metric.name}"), self.values(row, f"evaluate.{floor.stored}")
            if ours and theirs:
                mean, bound = statistics.fmean(ours), statistics.fmean(theirs)
                if not (mean > bound if metric.higher else mean < bound):  # NaN misses the floor too
                    missed.append(metric.missed(floor, bound))
        return f"untrained: {' and '.join(missed)}" if missed else ""

    def notes(self, row: str) -> str:
        """The note of a row: not run and why, missing seeds, stopped early, stale, task not learned, and others."""
        entries = self.of(row)
        if not entries:
            printed = any(row == one.id and one.scales == () for one in self.rows)
            return "published numbers only" if printed else f"not run at {self.scale}"
        missing = [entry for entry in entries if entry.result is None]
        reasons = list(dict.fromkeys(entry.reason for entry in missing))
        said = []
        if missing:
            count = "" if len(missing) == len(entries) else f"{len(missing)} of {len(entries)} trials "
            said.append(count + "; ".join(reasons))
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
        return "; ".join([*said, *filter(None, [self.untrained(row), competence.note(self, row)])])

    @property
    def shows_training(self) -> bool:
        """Whether the table shows the speed or the memory of training."""
        return any(column.key in (STEPS_PER_SECOND.key, PEAK_MEMORY.key) for column in self.columns)


def _longest_reference(sample: Mapping[str, Any]) -> int:
    """The number of words of a sample's reference, or of its longest reference if it has several, as captions do."""
    references = sample.get("reference", "")
    return max((len(text.split()) for text in ([references] if isinstance(references, str) else references)), default=0)


class Source(Protocol):
    """A source of trial results: `trials.Folder` or `trials.Recorded`. `recorded` is the folder of the record."""

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


def table(results: Results) -> list[list[str]]:
    """The table as texts. Its first line holds the titles: row, columns, published columns, seeds and notes.

    The notes of a row end with the source of its published numbers.

    The column of notes is left out if all notes are empty.
    """
    cells = published(results.study, results.scale)
    printed = list(dict.fromkeys(name for row in results.rows for name in cells.get(row.id, {})))
    printed = [name for name in printed if name not in (SOURCE, DIFFERS)]
    columns = [(column, point) for column in results.columns for point in _points(results, column)]
    titles = [c.title if p is None else f"{c.title} at {p:,}" for c, p in columns]
    lines = [["row", *titles, *(f"published {name}" for name in printed), "seeds", footnotes.NOTES]]
    for row in results.rows:
        done = len({entry.trial.seed for entry in results.of(row.id) if entry.result})
        texts = [results.cell(row.id, column, point).text for column, point in columns]
        paper = [cells.get(row.id, {}).get(name, "") for name in printed]
        source = cells.get(row.id, {}).get(SOURCE, "")
        notes = [results.notes(row.id), f"published in {source}" if source else ""]
        lines.append([row.name, *texts, *paper, str(done), "; ".join(filter(None, notes))])
    for name, numbers in floors.lines(results.floors):
        texts = [column.text(numbers[column.key]) if column.key in numbers else "" for column, _ in columns]
        if any(texts):
            lines.append([name, *texts, *("" for _ in printed), "", "floor: a baseline without a trained model"])
    empty = [
        i for i in range(len(lines[0])) if lines[0][i] == footnotes.NOTES and not any(line[i] for line in lines[1:])
    ]
    return [[text for i, text in enumerate(line) if i not in empty] for line in lines]


def _points(results: Results, column: Column) -> tuple[int | None, ...]:
    return results.points if column.at_points else (None,)


def flat(entry: Entry) -> dict[str, Any]:
    """One line of ``results.parquet``: the keys of a trial and every value of its stages under ``stage.name``."""
    trial, result = entry.trial, entry.result or {}
    line: dict[str, Any] = {name: getattr(trial, name) for name in ("id", "row", "name", "seed", "point")}
    line |= {"stale": entry.stale, "fingerprint": result.get("fingerprint"), "seconds": result.get("seconds")}
    for stage, numbers in result.get("stages", {}).items():
        line |= {f"{stage}.{k}": v for k, v in numbers.items() if isinstance(v, int | float | str | bool)}
    return line


def write(results: Results, workdir: Path) -> None:
    """Writes ``results.parquet``, ``table.csv`` and ``table.md`` into the study's folder."""
    import pyarrow
    import pyarrow.parquet

    workdir.mkdir(parents=True, exist_ok=True)
    lines = [flat(entry) for entry in results.entries if entry.result]
    names = list(dict.fromkeys(name for line in lines for name in line))
    columns = {name: _one_type([line.get(name) for line in lines]) for name in names}
    pyarrow.parquet.write_table(pyarrow.table(columns), workdir / "results.parquet")
    with open(workdir / "table.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table(results))
    (workdir / "table.md").write_text(text(results), encoding="utf-8")


def _one_type(values: list[Any]) -> list[Any]:
    """The values of a column with one type: all floats if a value is a float or an int beyond 64 bits."""
    if any(isinstance(value, float) or (isinstance(value, int) and abs(value) >= 2**63) for value in values):
        return [None if value is None else float(value) for value in values]
    return values


def text(results: Results) -> str:
    """The text of ``table.md``: title, table and legend."""
    title = f"# {results.study.name} · {results.scale}: {results.study.title}"
    return "\n".join([f"{title}\n", footnotes.markdown(table(results)), legend(results)])


def legend(results: Results) -> str:
    """The legend of the table: the seeds of its means, the cores of each trial, and notes about how trials were run."""
    size = results.study.scale(results.scale)
    done = [entry.result for entry in results.entries if entry.result]
    cores = sorted({result["cores"] for result in done})
    said = [f"Mean ± sample standard deviation over {results.seeds} random seeds."] if results.seeds > 1 else []
    seeds = sorted({entry.trial.seed for entry in results.entries})
    if seeds and seeds != list(range(results.seeds)):
        said.append(f"training.seed {', '.join(map(str, seeds))}.")
    if done:
        had = f"{' or '.join(map(str, cores))} core{'' if cores == [1] else 's'}"
        said.append(f"Each trial had {had} in a process of its own.")
    if any(column.key == PEAK_MEMORY.key for column in results.columns):
        said.append("Peak memory is the resident size of that process while training, Python and JAX included.")
    said += _provenance(done, len(results.entries), speeds=results.shows_training)
    said += [*results.study.notes, *([size.note] if size.note else [])]
    said += [line] if (line := with_reference(results)) else []
    if results.study.compared:
        from attention_research.studies.significance import agreement  # imports NumPy, which planning does not need

        said += agreement(results, published(results.study, results.scale))
    return "\n".join(said) + "\n"


def _provenance(done: Sequence[Mapping[str, Any]], planned: int, *, speeds: bool) -> list[str]:
    """Notes about trials that were recorded from a modified tree, or that ran at a low priority."""
    environments = [result.get("environment", {}) for result in done]
    modified = [one["modified"] for one in environments if one.get("modified")]
    said = []
    if modified:
        files = ", ".join(sorted({file for files in modified for file in files}))
        said.append(f"{len(modified)} of {planned} trials were recorded from a modified tree ({files}).")
    low = sum("nice" in one for one in environments)
    if speeds and low:
        said.append(f"{low} of {planned} trials ran at a low priority: other programs may have slowed them down.")
    return said


def finite(value: float) -> bool:
    """Whether a value is a finite number, which a figure can show."""
    return value is not None and math.isfinite(value)
