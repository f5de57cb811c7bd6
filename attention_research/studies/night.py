"""Plans the missing and stale trials of many studies at a scale: their order, and their estimated time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError
from attention_research.studies.costs import Cost, Costs
from attention_research.studies.floors import plan_with_floors
from attention_research.studies.loading import find_studies, load_study
from attention_research.studies.order import in_order
from attention_research.studies.run import RUNS, fingerprint, pending, say
from attention_research.studies.study import SCALES, Study, nearest_of
from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import Trial
from attention_research.studies.verdicts import claims_of
from attention_research.training.failure import line_of


@dataclasses.dataclass
class Work:
    """The trials to run in a study at a scale, and their outcome."""

    study: Study
    claims: int
    jobs: int
    trials: tuple[Trial, ...]
    folder: Folder
    stale_trials: str
    costs: Mapping[str, Cost] = dataclasses.field(default_factory=dict)
    missing: int = 0
    stale: int = 0
    unrecorded: int = 0
    left: tuple[Trial, ...] = ()
    done: int = 0
    failed: list[dict[str, str]] = dataclasses.field(default_factory=list)
    note: str = ""
    error: str = ""

    def look(self) -> None:
        """Updates the counts and costs from the present results."""
        before = {trial.id for trial in self.left}
        results = {trial.id: (trial, self.folder.result(trial)) for trial in self.trials}
        self.left = tuple(pending(list(self.trials), self.folder, self.stale_trials))
        self.stale = sum(_counts(results[trial.id][1]) for trial in self.left)
        self.missing = len(self.left) - self.stale
        costs = Costs(((trial, result) for trial, result in results.values() if result), self.folder)
        self.costs = {trial.id: costs.of(trial) for trial in self.left}
        self.unrecorded = sum(
            self.folder.unrecorded(trial) for name, (trial, _) in results.items() if name not in self.costs
        )
        self.done += len(before - self.costs.keys())

    @property
    def seconds(self) -> float:
        """The estimated seconds for the trials that are left, without those of unknown duration."""
        return sum(cost.seconds or 0.0 for cost in self.costs.values()) / self.jobs

    @property
    def unknown(self) -> int:
        """The number of trials of unknown duration."""
        return sum(cost.seconds is None for cost in self.costs.values())

    @property
    def sources(self) -> dict[str, int]:
        """Source of the estimate -> number of trials."""
        found = [cost.source for cost in self.costs.values()]
        return {source: found.count(source) for source in dict.fromkeys(found)}

    def to_json(self) -> dict[str, Any]:
        names = ("claims", "missing", "stale", "done", "failed", "seconds", "unknown", "sources", "note", "error")
        return {"study": self.study.name, **{name: getattr(self, name) for name in names}, "left": len(self.left)}


def _counts(result: Mapping[str, Any] | None) -> bool:
    return result is not None and "failed" not in result


def planned(
    names: Sequence[str],
    *,
    scale: str,
    jobs: int | None = None,
    stale: str = "rerun",
    order: Path | None = None,
) -> list[Work]:
    """The work of all studies by priority, or of those in `names` in the given order. Complete studies are left out.

    Without `names`, a study without this scale, or one that cannot be planned, is skipped with a message. Raises
    ConfigError for a wrong name or scale, and for a study in `names` that cannot be planned.
    """
    known = find_studies()
    studies = _loaded(names, known, scale)
    claims = {name: len(claims_of(study)) for name, study in studies.items()}
    ordered = list(studies) if names else in_order({**dict.fromkeys(known, 0), **claims}, scale, order)
    found, sources = [], fingerprint()
    for name in (name for name in ordered if name in studies):
        study = studies[name]
        size = study.scale(scale)
        try:
            trials = plan_with_floors(study, scale, study.rows_at(scale), None, sources)
        except ConfigError as error:
            if names:
                raise
            say(f"{study.name}: skipped: {error}")
            continue
        folder = Folder(RUNS / f"{study.slug}-{scale}", study.record(scale))
        work = Work(study, claims[name], jobs or size.jobs, tuple(trials), folder, stale)
        work.look()
        if work.left or work.unrecorded:
            found.append(work)
    return found


def _loaded(names: Sequence[str], known: Mapping[str, str], scale: str) -> dict[str, Study]:
    """Name -> study, for the studies in `names` or for all studies with the scale."""
    studies: dict[str, Study] = {}
    for name in dict.fromkeys(names or known):
        try:
            studies[name] = load_study(name)
        except Exception as error:
            if names:
                raise
            say(f"{name}: skipped: {line_of(error)}")
    if names:
        for study in studies.values():
            study.scale(scale)
        return studies
    without = [name for name, study in studies.items() if scale not in study.scales]
    if len(without) == len(studies):
        raise ConfigError(f"--scale={scale}: no study has it; {nearest_of(scale, SCALES)}")
    if without:
        say(f"without a scale {scale}: {', '.join(without)}")
    return {name: study for name, study in studies.items() if name not in without}
