"""`status --stale`: says which recorded trials are current, stale or not comparable, and why."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attention_research.config.errors import ConfigError, offer
from attention_research.studies import records
from attention_research.studies.floors import plan_with_floors
from attention_research.studies.loading import find_studies, load_study
from attention_research.studies.staleness import Current, NotComparable, Stale, State, states_of
from attention_research.studies.study import SCALES, Study
from attention_research.studies.trials import Trial
from attention_research.training.environment import fingerprint

_STATES = (Current, Stale, NotComparable)


@dataclasses.dataclass(frozen=True)
class Table:
    """The record of a study at a scale: each recorded trial with its state.

    `missing` is the number of planned trials without a record.
    """

    study: str
    scale: str
    trials: tuple[tuple[Trial, State], ...]
    missing: int

    def count(self, kind: type[State]) -> int:
        """The number of trials in a state."""
        return sum(isinstance(state, kind) for _, state in self.trials)

    def reasons(self) -> list[str]:
        """One line for each reason, with the number of trials that have it and their rows."""
        counts = Counter(state.note for _, state in self.trials if state.reason)
        rows = {note: dict.fromkeys(one.row for one, state in self.trials if state.note == note) for note in counts}
        told = lambda note, number: "all" if number == len(self.trials) else f"{number} of {_some(list(rows[note]))}"
        return [f"{note} ({told(note, number)})" for note, number in counts.items()]

    def to_json(self) -> dict[str, Any]:
        """The table as an object for `--json`."""
        each = [
            {"id": one.id, "row": one.row, "seed": one.seed, "point": one.point, "state": state.name,
             "reason": state.reason}
            for one, state in self.trials
        ]  # fmt: skip
        counts = {kind.name.replace(" ", "_"): self.count(kind) for kind in _STATES}
        return {"study": self.study, "scale": self.scale, **counts, "missing": self.missing, "trials": each}


def recorded(
    names: Sequence[str] = (),
    scale: str | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[Table]:
    """The recorded tables of all studies or of those in `names`, at every scale or at one.

    Trains nothing. Lowers programs where it must compare them. Raises ConfigError for an unknown study or scale, and
    for a study in `names` without a record.
    """
    if scale is not None and scale not in SCALES:
        raise ConfigError(f"--scale={scale}: no such scale; {offer(scale, SCALES)}")
    sources, tables = fingerprint(), []
    studies = {name: load_study(name) for name in names or find_studies()}
    scales = {name: _recorded_scales(study, scale) for name, study in studies.items()}
    if names and (without := [name for name in studies if not scales[name]]):
        said = f"stud{'y' if len(without) == 1 else 'ies'} {', '.join(without)}"
        raise ConfigError(f"{said}: nothing is recorded{f' at {scale}' if scale else ''}")
    for name, study in studies.items():
        for one in scales[name]:
            found = records.read(_folder(study, one))
            planned = plan_with_floors(study, one, study.rows_at(one), None, sources)
            trials = {trial.id: trial for trial in planned}
            there = [(trial, found[trial.id]) for trial in trials.values() if trial.id in found]
            states = states_of(there, partial(_report, report, f"{name} · {one}"))
            pairs = tuple(zip((trial for trial, _ in there), states, strict=True))
            tables.append(Table(name, one, pairs, len(trials) - len(there)))
    return tables


def text(tables: Sequence[Table]) -> str:
    """One line for each table with its counts, and the reasons below it."""
    titles = ("study", "scale", "current", "stale", "not comparable", "not recorded")
    cells = [[one.study, one.scale, *(str(one.count(kind)) for kind in _STATES), str(one.missing)] for one in tables]
    total = ["all", "", *(str(sum(one.count(kind) for one in tables)) for kind in _STATES)]
    cells += [[*total, str(sum(one.missing for one in tables))]] if len(tables) > 1 else []
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = zip(texts, widths, strict=True)
        return "  ".join(t.rjust(w) if i > 1 else t.ljust(w) for i, (t, w) in enumerate(padded))

    lines = [line(titles)]
    for row, one in zip(cells, [*tables, None], strict=False):
        lines += [line(row), *(f"  {reason}" for reason in (one.reasons() if one else ()))]
    return "\n".join(text.rstrip() for text in lines)


def _report(report: Callable[[str], None], whose: str, line: str) -> None:
    report(f"{whose} · {line}")


def _recorded_scales(study: Study, scale: str | None) -> list[str]:
    """The scales at which a study has a record, or of these only `scale`."""
    return [one for one in study.scales if scale in (None, one) and records.read(_folder(study, one))]


def _folder(study: Study, scale: str) -> Path:
    folder = study.record(scale)
    assert folder is not None
    return folder


def _some(rows: list[str], most: int = 6) -> str:
    more = f" and {len(rows) - most} more rows" if len(rows) > most else ""
    return ", ".join(rows[:most]) + more
