"""`budget`: finds the steps and learning rates at which the rows of a study train, and the hours that this takes.

Its trials are rows of the study with other learning rates and steps, with one seed each. They train and do not evaluate
a test split. They form a separate study under ``runs/<slug>-<scale>-budget``, so that the same command continues after
an interruption.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError, RunError
from attention_research.studies import budget_page
from attention_research.studies.budget import (
    Budget,
    Tried,
    factors,
    families_at,
    goes_on,
    length,
    on_the_edge,
    rounded,
    stretched,
    winner,
)
from attention_research.studies.columns import LOSS, PARAMETERS, STEPS_PER_SECOND
from attention_research.studies.costs import after_training, seconds_a_step, started
from attention_research.studies.loading import load_study
from attention_research.studies.run import RUNS, fingerprint, run_study
from attention_research.studies.study import Row, Study, train
from attention_research.studies.trial_folders import Folder, write_json
from attention_research.studies.trials import configuration, plan
from attention_research.training.workdir import json_text

_SCALE = "budget"
Results = list[Mapping[str, Any]]


def budget(
    study: str | Study,
    *,
    scale: str = "cpu",
    rows: Sequence[str] | None = None,
    workdir: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> int:
    """`find_budget` as a command: progress on standard error, the page or the JSON document on standard output."""
    study = load_study(study) if isinstance(study, str) else study
    workdir = workdir or RUNS / f"{study.slug}-{scale}-budget"
    found = find_budget(study, scale=scale, rows=rows, workdir=workdir, **options)
    write_json(workdir / "budget.json", found)
    print(json_text(found, indent=1) if as_json else budget_page.page(found), flush=True)
    return 0


def find_budget(
    study: Study, *, scale: str, rows: Sequence[str] | None = None, workdir: Path, **options: Any
) -> dict[str, Any]:
    """Runs the missing trials of a study's budgets, and returns the budgets as a JSON document.

    `rows` restricts the search to the families of these rows; the reference row is always included. `options` (runner,
    jobs, machines, stale) are those of `run_study`. Raises ConfigError before anything starts, and RunError if trials
    failed.
    """
    wanted = {row.id for row in study.rows_at(scale, rows)}
    trained = [row for row in study.rows_at(scale) if study.scale(scale).config and _trains(study, scale, row)]
    if not trained:
        raise ConfigError(f"{study.name} trains no model at {scale}: it has no steps and no learning rate to find")
    if not study.budgets:
        raise ConfigError(f'{study.name} declares no budget; give its Study budgets=(Budget("ROW"),)')
    parts = []
    for one, families in zip(study.budgets, families_at(study.budgets, [row.id for row in trained]), strict=True):
        asked = {name: covered for name, covered in families.items() if wanted.intersection(covered)}
        if asked:
            reference = next(iter(families))
            parts.append((one, {reference: families[reference], **asked}))
    if not parts:
        raise ConfigError(f"--rows={','.join(sorted(wanted))}: {study.name} trains none of them at {scale}")
    search = _Search(study, scale, {row.id: row for row in trained}, workdir, options)
    search.run([(row, factor, 1.0) for one, families in parts for row in families for factor in one.rates])
    found = [_part(search, one, families) for one, families in parts]
    return {"study": study.name, "scale": scale, "workdir": str(workdir), "budgets": found, **_hours(search, found)}


def _trains(study: Study, scale: str, row: Row) -> bool:
    return any(stage.kind == "train" for stage in study.stages_of(row, scale))


def _part(search: _Search, one: Budget, families: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Tries the lengths of one budget, whose rates have been tried, and returns its document."""
    rates = {row: [search.tried(row, factor, 1.0, factor) for factor in one.rates] for row in families}
    best = {row: winner(tried) for row, tried in rates.items()}
    reference = next(iter(families))
    if (chosen := best[reference]) is None:
        raise RunError(f"{search.study.name}: {reference} diverged at each of its rates; give the budget lower ones")
    lengths, tried = factors(one), []
    count = min(3, len(lengths))  # half, once and twice the scale's steps, in parallel if there is room
    while True:
        search.run([(reference, chosen.factor, factor) for factor in lengths[:count]])
        tried = [search.tried(reference, chosen.factor, factor, factor) for factor in lengths[:count]]
        outcome = length(one, tried)
        if not goes_on(one, outcome):
            break
        count += 1
    found = outcome.chosen
    return {
        "row": reference,
        "gain": one.gain,
        "families": [
            {
                "row": row,
                "rows": list(families[row]),
                "rates": [trial.to_json() for trial in rates[row]],
                "best": won.factor if (won := best[row]) else None,
                "edge": on_the_edge(won, one.rates),
                "overrides": search.overrides(row, won.factor, found.factor) if won and found else None,
            }
            for row in families
        ],
        "lengths": [
            {**trial.to_json(), "gain": gain if gain is not None and math.isfinite(gain) else None}
            for trial, gain in zip(tried, (None, *outcome.gains), strict=True)
        ],
        "factor": found and found.factor,
        "steps": found and found.steps,
        "final": outcome.final,
        "why": outcome.why,
    }


class _Search:
    """The trials of a study's budgets: those requested so far, and their results."""

    def __init__(self, study: Study, scale: str, rows: Mapping[str, Row], workdir: Path, options: Mapping[str, Any]):
        self.study, self.scale, self.rows, self.workdir, self.options = study, scale, rows, workdir, options
        self.asked: dict[str, Row] = {}
        self.results: dict[str, Mapping[str, Any]] = {}
        self._training: dict[str, dict[str, Any]] = {}

    def training(self, row: str) -> dict[str, Any]:
        """The resolved config section `training` of a row at the scale."""
        if row not in self._training:
            config = configuration(self.study, self.scale, self.rows[row])
            assert config is not None  # the row trains
            self._training[row] = config.resolved["training"]
        return self._training[row]

    def overrides(self, row: str, rate: float, steps: float) -> dict[str, Any]:
        """The overrides of a trial: `rate` times its row's learning rate and `steps` times its row's steps."""
        training = self.training(row)
        changes = stretched(training, steps)
        peak = changes.get("training.learning_rate", training["learning_rate"])
        return {**changes, "training.learning_rate": rounded(peak * rate)}

    def run(self, wanted: Iterable[tuple[str, float, float]]) -> None:
        """Runs the missing trials of these (row, factor of its rate, factor of its steps).

        The table in the study's folder keeps the trials of earlier calls. Raises RunError if a trial failed.
        """
        for row, rate, steps in wanted:
            mine = self.rows[row]
            changes = {**mine.at.get(self.scale, mine.overrides), **self.overrides(row, rate, steps)}
            name = f"{mine.name}: rate x {rate:g}, steps x {steps:g}"
            self.asked[_id(row, rate, steps)] = Row(_id(row, rate, steps), name, changes)
        alone: dict[str, Any] = {"seeds": 1, "more_seeds": {}, "replicas": False}
        plain: dict[str, Any] = {"stages": None, "columns": None, "reference": "", "decided_by": None}
        size = dataclasses.replace(self.study.scale(self.scale), **alone, **plain, points=(), settings={})
        ours = Study(
            tuple(self.asked.values()),
            {_SCALE: size},
            stages=(train,),
            columns=(PARAMETERS, STEPS_PER_SECOND, LOSS),
            title=f"Budget of {self.study.name} at {self.scale}",
            name=self.study.name,
        )
        folder = Folder(self.workdir)
        trials = plan(ours, _SCALE, list(ours.rows), 1, fingerprint())
        if self.options.get("stale") == "rerun" or any(folder.result(trial) is None for trial in trials):
            summary = run_study(ours, scale=_SCALE, workdir=self.workdir, **self.options)
            if summary["failed"]:
                line = f"{len(summary['failed'])} of {summary['trials']} trials failed: {summary['failed'][0]['error']}"
                raise RunError(f"{line}; the same command runs them again")
        for trial in trials:
            result = folder.result(trial)
            assert result is not None  # no trial has failed
            self.results[trial.row] = result

    def tried(self, row: str, rate: float, steps: float, factor: float) -> Tried:
        """The result of a trial that has run. `factor` is the one of its two factors that is varied."""
        changes = self.overrides(row, rate, steps)
        loss, step = lowest(self.results[_id(row, rate, steps)])
        return Tried(factor, changes["training.learning_rate"], changes["training.steps"], loss, step)

    def of(self, row: str) -> Results:
        """The results of all trials of a row."""
        return [result for name, result in self.results.items() if name.rpartition("-rate-")[0] == row]

    def recorded(self) -> dict[str, Results]:
        """Row -> results of the study's own finished or recorded trials at the scale, without diverged ones."""
        study, scale = self.study, self.scale
        folder = Folder(RUNS / f"{study.slug}-{scale}", study.record(scale))
        found: dict[str, Results] = {}
        for trial in plan(study, scale, list(self.rows.values()), None, fingerprint()):
            result = folder.result(trial)
            if result is not None and not result["diverged"]:
                found.setdefault(trial.row, []).append(result)
        return found


def _id(row: str, rate: float, steps: float) -> str:
    return f"{row}-rate-{rate:g}-steps-{steps:g}"


def lowest(result: Mapping[str, Any]) -> tuple[float, int | None]:
    """The lowest validation loss of a trial and its step; (infinity, None) if it diverged or has none."""
    curve = [(loss, int(step)) for step, loss in result["curves"].get("validation", []) if math.isfinite(loss)]
    return (math.inf, None) if result["diverged"] or not curve else min(curve)


def _hours(search: _Search, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The estimated hours, as {"rows": one object for each row, "hours": of all trials, "jobs", "evaluated"}.

    "jobs" is the number of trials at a time. "evaluated" is whether the hours include the stages after training, whose
    times are known only from records. The speed of a row is that measured here for the representative of its family,
    times the ratio of the recorded speeds of the two rows if both are recorded.
    """
    recorded, size = search.recorded(), search.study.scale(search.scale)
    everywhere = _median(after_training, [result for results in recorded.values() for result in results])
    rows = []
    for part in found:
        for family in part["families"]:
            ours = search.of(family["row"])
            speed, start = _median(seconds_a_step, ours), _median(started, ours)
            theirs = _median(seconds_a_step, recorded.get(family["row"], []))
            for row in family["rows"]:
                own = recorded.get(row, [])
                mine = _median(seconds_a_step, own)
                ratio = mine / theirs if mine and theirs else 1.0
                steps = round(search.training(row)["steps"] * (part["factor"] or 1.0))
                after = _median(after_training, own) or everywhere or 0.0
                seconds = None if speed is None else (start or 0.0) + steps * speed * ratio + after
                hours = None if seconds is None else seconds / 3600
                seeds = size.seeds_of(row)
                rows.append({
                    "row": row, "family": family["row"], "steps": steps, "seeds": seeds, "hours_a_seed": hours,
                    "hours": None if hours is None else hours * seeds,
                    "speed": "measured" if row == family["row"] else "recorded" if ratio != 1.0 else "family",
                })  # fmt: skip
    known = [row["hours"] for row in rows if row["hours"] is not None]
    jobs = search.options.get("jobs") or size.jobs
    return {"rows": rows, "hours": sum(known), "jobs": jobs, "evaluated": everywhere is not None}


def _median(function: Callable[[Mapping[str, Any]], float | None], results: Results) -> float | None:
    values = [value for result in results if (value := function(result)) is not None]
    return statistics.median(values) if values else None
