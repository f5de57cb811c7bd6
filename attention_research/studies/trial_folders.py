"""The folders of a study's trials, and its record: the results of finished trials, and the folders of new ones.

The result of a trial also holds its program (`studies.fingerprints`). A trial whose program has changed is stale
(`studies.staleness`): it is kept and marked, or run again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_research import bundled
from attention_research.studies import records
from attention_research.studies.attempts import STOP
from attention_research.studies.staleness import Stale, state_of
from attention_research.studies.trials import Trial
from attention_research.training.workdir import write_text

#: The file in a trial's folder with the program with which it was started (`studies.fingerprints`).
PROGRAM = "program.json"


class Folder:
    """The folder of a study at a scale, with a run folder ``trials/<id>/`` for each trial, and the study's record.

    ``recorded`` is ``experiments/<paper>/results/<table>/<scale>``. A trial in its record (`studies.records`), or in
    the record of another table, is finished: equal ids mean equal trials.
    """

    def __init__(self, workdir: Path, recorded: Path | None = None):
        self.workdir, self.recorded = workdir, recorded

    def trial(self, trial: Trial) -> Path:
        return self.workdir / "trials" / trial.id

    def result(self, trial: Trial) -> dict[str, Any] | None:
        """The result of a finished trial, from its folder or from a record; None if it is not finished."""
        return next((found for found in self._results(trial) if found is not None), None)

    def why_missing(self, trial: Trial) -> str:
        """The reason why a trial has no result: it failed, it is not finished, or it was not run."""
        folder = self.trial(trial)
        try:
            return f"failed: {(folder / 'error.txt').read_text(encoding='utf-8').strip()}"
        except FileNotFoundError:
            return "not finished" if (folder / "trial.json").exists() else "not run"

    def _results(self, trial: Trial) -> Iterator[dict[str, Any] | None]:
        """Yields the result from the trial's folder, the study's record, and the records of other tables, in order."""
        yield read_result(self.trial(trial))
        if self.recorded:
            yield records.read(self.recorded).get(trial.id)
            yield from (records.read(table).get(trial.id) for table in self._tables)

    @cached_property
    def _tables(self) -> list[Path]:
        """The records of all tables at this scale: those beside this one, and all packaged ones."""
        assert self.recorded is not None
        packs = bundled.folder("experiments").glob(f"*/results/*/{self.recorded.name}")
        beside = self.recorded.parents[1].glob(f"*/{self.recorded.name}")
        return list(dict.fromkeys([*sorted(beside), *sorted(packs)]))

    def unrecorded(self, trial: Trial) -> bool:
        """Whether the trial is finished, here or in another table, but this result is not in the table's record."""
        if self.recorded is None:
            return False
        ours = self.result(trial)
        if ours is None or "failed" in ours:
            return False
        theirs = records.read(self.recorded).get(trial.id)
        return theirs is None or theirs.get("seconds") != ours.get("seconds")

    def group(self, address: str) -> Path:
        """The folder in which a group of trials is trained together (`studies.groups`)."""
        return self.workdir / "groups" / address

    def prepare(self, trial: Trial, *, rerun_stale: bool, folder: Path | None = None) -> Path:
        """Prepares the folder of a trial for a worker, and returns it.

        A trial that a different program has started is continued, and its result is stale. With `rerun_stale` the
        folder is deleted first instead.
        """
        folder = folder or self.trial(trial)
        begun = any(file for kept in ("stages", "checkpoints") for file in (folder / kept).glob("*"))
        if not begun:
            (folder / PROGRAM).unlink(missing_ok=True)
        elif read_program(folder) is None:
            write_json(folder / PROGRAM, {"sources": _planned_by(folder)})  # started by an earlier version
        elif rerun_stale and isinstance(state_of(trial, {"program": read_program(folder)}), Stale):
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for gone in ("error.txt", "progress.json", STOP):
            (folder / gone).unlink(missing_ok=True)
        write_json(folder / "trial.json", trial.to_json())
        return folder


class Recorded:
    """A source of results with only the `trials` of one record, by id. It reads no work folder and no other table."""

    def __init__(self, recorded: Path, trials: Mapping[str, Mapping[str, Any]]):
        self.recorded, self.trials = recorded, trials

    def result(self, trial: Trial) -> Mapping[str, Any] | None:
        return self.trials.get(trial.id)

    def why_missing(self, trial: Trial) -> str:
        return "not run"


def read_program(folder: Path) -> dict[str, str] | None:
    """The program with which the trial in this folder was started; None if it has not started."""
    try:
        found = json.loads((folder / PROGRAM).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _planned_by(folder: Path) -> str:
    try:
        return str(json.loads((folder / "trial.json").read_text(encoding="utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def read_result(folder: Path) -> dict[str, Any] | None:
    """The result of the trial in this folder; None if it is not finished. Stages under "failed" must run again."""
    try:
        found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # a damaged result counts as none: the trial runs again
        return None
    return found if records.is_result(found) else None


def outcome_path(folder: Path, stage: Mapping[str, Any]) -> Path:
    """The file of the outcome of a stage in a trial's folder."""
    return folder / "stages" / f"{stage['address']}.json"


def read_outcome(path: Path) -> dict[str, Any] | None:
    """The saved outcome of a stage; None if there is none or it is damaged: the stage then runs again."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, value: Any) -> None:
    """Writes JSON with sorted keys, atomically: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")
