"""Passes the candidates of a search from Optuna to an executor, and their results back to Optuna.

When the executor has room for a trial, it requests one, and Optuna draws it with the results known at that time. No
trial waits for another.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError
from attention_research.studies import results
from attention_research.studies.attempts import STOP
from attention_research.studies.draws import Draws
from attention_research.studies.halving import Halving
from attention_research.studies.objectives import Objective, with_validation_loss
from attention_research.studies.progress import Progress
from attention_research.studies.results import Results
from attention_research.studies.run import prepare_data, say, stopped
from attention_research.studies.runners.loop import run as run_trials
from attention_research.studies.study import Study
from attention_research.studies.sweep import rows_of
from attention_research.studies.trial_folders import Folder, read_result, write_json
from attention_research.studies.trials import Trial, plan
from attention_research.training.environment import fingerprint

LOOK_SECONDS = 1.0
_STOPPED = "stopped"


class Candidates:
    """The candidates of one search, in a study's folder.

    `study` has no rows yet. Without `halving` no trial is stopped early.
    """

    def __init__(self, study: Study, draws: Draws, folder: Folder, goal: Objective, halving: Halving | None = None):
        self.study, self.draws, self.folder, self.goal, self.halving = study, draws, folder, goal, halving
        self.progress = Progress([], folder, set())
        self.fingerprint = fingerprint()
        self.planned: dict[Path, Trial] = {}
        self.at_work: dict[Path, list[Any]] = {}  # Optuna's trials; several if it drew the same settings again
        self.stopped: dict[Path, str] = {}  # trials that were asked to stop, with the reason
        self.prepared: list[Any] = []
        self.looked = 0.0

    def run(self, executor: Any, total: int) -> list[dict[str, str]]:
        """Runs candidates until `total` are drawn, over all sessions. Returns the failed ones."""
        coming = self._coming(total)
        first = next(coming, None)  # errors of all candidates, or of the data, are raised before the executor starts
        if first is None:
            return []
        folders = itertools.chain([first], coming)
        try:
            with self.progress:
                outcome = run_trials(executor, folders, self.folder.workdir, self._report, self._tick)
        except KeyboardInterrupt as stop:
            raise stopped(stop, self.folder.workdir) from None
        failed = [(self.planned[path], line) for path, line in outcome.items() if line != "done"]
        return [{"id": trial.id, "row": trial.row, "error": line} for trial, line in failed]

    def results(self) -> Results:
        """The results of all candidates, in the order of their draws, with the last validation loss as a number."""
        study = dataclasses.replace(self.study, rows=rows_of(self.draws.drawn()))
        trials = plan(study, "sweep", list(study.rows), 1, self.fingerprint)
        found = results.collect(study, "sweep", trials, self.folder)
        entries = (
            dataclasses.replace(entry, result=entry.result and with_validation_loss(entry.result))
            for entry in found.entries
        )
        return dataclasses.replace(found, entries=tuple(entries))

    def _coming(self, total: int) -> Iterator[Path]:
        """Yields the folders of the trials to run. Each is drawn only when it is requested."""
        for asked in self.draws.ask(total):
            (row,) = rows_of([self.draws.settings(asked)])
            try:
                (trial,) = plan(self.study, "sweep", [row], 1, self.fingerprint)
            except ConfigError as error:
                say(f"{row.name}: not run: {error}")
                self.draws.invalid(asked, str(error))
                continue
            folder = self.folder.trial(trial)
            if folder in self.at_work:
                self.at_work[folder].append(asked)
            elif (result := self.folder.result(trial)) is not None:
                self._tell(asked, result)
            else:
                yield self._ready(asked, trial)
        self.draws.check_some_valid()
        if self.draws.kind and self.draws.count() < total:
            say(f"search: hardly any candidate is valid; ends after {self.draws.count()} of {total}")

    def _ready(self, asked: Any, trial: Trial) -> Path:
        prepare_data([trial], self.prepared)
        folder = self.folder.prepare(trial, rerun_stale=False)
        reason = asked.user_attrs.get(_STOPPED)
        if reason:  # it was asked to stop in an earlier session, which ended before the trial
            write_json(folder / STOP, {"reason": reason})
            self.stopped[folder] = reason
        self.planned[folder], self.at_work[folder] = trial, [asked]
        self.progress.add(trial)
        return folder

    def _report(self, folder: Path, state: str, line: str) -> None:
        self.progress.report(folder, state, self.stopped.get(folder, "") if state == "done" else line)
        if state not in ("done", "failed"):
            return
        self._judge(folder, ended=True)
        result = read_result(folder)
        for asked in self.at_work.pop(folder):
            if state == "done" and result is not None:
                self._tell(asked, result)
            else:
                self.draws.failed(asked, line)

    def _tell(self, asked: Any, result: Mapping[str, Any]) -> None:
        if "stopped" in result:
            self.draws.stopped(asked)
        else:
            self.draws.finished(asked, self.goal.cost(result))

    def _tick(self) -> None:
        self.progress.tick()
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            self.looked = time.monotonic()
            for folder in self.at_work:
                self._judge(folder)

    def _judge(self, folder: Path, *, ended: bool = False) -> None:
        """Reports the new validation losses of a trial to `halving`, and stops the trial if its losses are too high.

        The losses of a trial that has ended count at the rungs too.
        """
        if self.halving is None or folder in self.stopped:
            return
        asked, trial = self.at_work[folder][0], self.planned[folder]
        assert trial.steps is not None  # every candidate trains
        reason = self.halving.judge(asked, folder, trial.steps)
        if reason and not ended:
            self.stopped[folder] = reason
            asked.set_user_attr(_STOPPED, reason)
            write_json(folder / STOP, {"reason": reason})
