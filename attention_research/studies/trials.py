"""Trials: a trial is one row of a study with one random seed, at one point. This module plans trials and finds results.

A trial's id is the address of its last stage: a hash of the config's identity and of all stages. Two rows with equal
settings share a trial, so that it is run once. The result of a trial also holds its program (`studies.fingerprints`). A
trial whose program has changed is stale (`studies.staleness`): it is kept and marked, or run again.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from attention_research import bundled
from attention_research import config as configs
from attention_research.studies import finetuning, fingerprints, records
from attention_research.studies.attempts import STOP
from attention_research.studies.loading import reference
from attention_research.studies.sources import Sources
from attention_research.studies.staleness import Stale, state_of
from attention_research.studies.study import Row, Scale, Stage, Study, digest
from attention_research.training.workdir import write_text

#: The file in a trial's folder with the program with which it was started (`studies.fingerprints`).
PROGRAM = "program.json"


@dataclasses.dataclass(frozen=True)
class Trial:
    """A planned trial: one row, seed and point, with everything that a fresh process needs to run it.

    `seed` is the random seed, and `repeat` its position among the row's seeds, from 0. `fingerprint` is a hash of all
    sources that could matter: as long as it does not change, the program does not change.
    """

    id: str
    row: str
    name: str
    seed: int
    point: int | None
    identity: str
    config_hash: str | None
    given: dict[str, Any] | None
    stages: tuple[dict[str, Any], ...]
    fingerprint: str
    steps: int | None = None
    count: bool = False
    repeat: int = 0

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def plan(study: Study, scale: str, rows: list[Row], seeds: int | None, fingerprint: str) -> list[Trial]:
    """All trials of some rows. Every config is resolved and checked before anything runs.

    A row has `seeds` seeds (None: as many as the scale says). The first is its `training.seed`, which is 0 unless the
    config file, the scale or the row sets it. `fingerprint` is the hash of the package's sources.
    """
    size = study.scale(scale)
    points: tuple[int | None, ...] = size.points or (None,)
    of_stages = partial(fingerprints.sources_of, package=fingerprint, sources=Sources())
    found = []
    for row in rows:
        configurations = _configurations(study, scale, row, size.seeds_of(row.id) if seeds is None else seeds)
        found += [
            _trial(study, scale, row, repeat, config, point, of_stages)
            for repeat, config in enumerate(configurations)
            for point in points
        ]
    return found


def configuration(study: Study, scale: str, row: Row, repeat: int = 0) -> configs.Config | None:
    """The config of a row at a scale with the row's `repeat`-th seed, or None for a row that only measures."""
    return _configurations(study, scale, row, repeat + 1)[repeat]


def _configurations(study: Study, scale: str, row: Row, seeds: int) -> list[configs.Config | None]:
    """The configs of a row, one for each seed."""
    size = study.scale(scale)
    if size.config is None:
        return [None] * seeds
    return _of_row(row, partial(_seeded, size, row.at.get(scale, row.overrides), seeds))


def _seeded(size: Scale, changes: Mapping[str, Any], seeds: int) -> list[configs.Config]:
    """One config for each seed, counting up from the row's `training.seed`.

    With replicas all seeds see the batches of the scale's first seed, unless `training.data_seed` is given.
    """
    assert size.config is not None
    config = configs.load(size.config, [*size.overrides.items(), *changes.items()])
    given, first = config.resolved["training"]["seed"], None
    if size.replicas and config.resolved["training"]["data_seed"] is None:
        first = configs.load(size.config, size.overrides.items()).resolved["training"]["seed"]
    found = []
    for seed in range(given, given + seeds):
        data_seed = [] if first in (None, seed) else [("training.data_seed", first)]
        found.append(config.override([("training.seed", seed), *data_seed]))
    return found


def _of_row(row: Row, function: Callable[[], Any]) -> Any:
    """Calls `function` and adds the row's id to its ConfigError."""
    try:
        return function()
    except configs.ConfigError as error:
        raise configs.ConfigError(f"{error} (row {row.id})") from None


def _trial(
    study: Study,
    scale: str,
    row: Row,
    repeat: int,
    config: configs.Config | None,
    point: int | None,
    sources: Callable[[Any], str],
) -> Trial:
    size = study.scale(scale)
    planned = study.stages_of(row, scale)
    seed = config.resolved["training"]["seed"] if config else repeat
    # The arguments of functions of `measure`, besides their stage's own settings.
    arguments = {**size.settings, **row.settings, "seed": seed, **({study.axis: point} if point is not None else {})}
    identity = config.identity if config else digest(arguments)
    stages: list[dict[str, Any]] = []
    address = identity
    for stage in planned:
        where = None if stage.function is None else reference(stage.function)
        wanted = {"kind": stage.kind, "settings": dict(stage.settings), "function": where}
        if stage.kind == "measure":
            wanted["settings"] = {**arguments, **stage.settings}
        if stage.kind == "finetune":
            wanted["settings"] = _of_row(row, partial(finetuning.planned, stage, config, scale, stages))
        address = digest([address, _content(stage, wanted)])
        stages.append({**wanted, "address": address})
    return Trial(
        id=address,
        row=row.id,
        name=row.name,
        seed=seed,
        point=point,
        identity=identity,
        config_hash=config.hash if config else None,
        given=_plain(config.given) if config else None,
        stages=tuple(stages),
        fingerprint=sources(stages),
        steps=config.resolved["training"]["steps"] if config else None,
        count=config is not None and repeat == 0 and any(stage.kind == "train" for stage in planned),
        repeat=repeat,
    )


def _content(stage: Stage, wanted: dict[str, Any]) -> dict[str, Any]:
    """The parts of a stage that determine its address: a function by its name, without the path of its file."""
    settings = finetuning.content(wanted["settings"]) if stage.kind == "finetune" else wanted["settings"]
    return {**wanted, "settings": settings, "function": stage.function and stage.function.__qualname__}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value.to_dict() if hasattr(value, "to_dict") else value))


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


def write_json(path: Path, value: Any) -> None:
    """Writes JSON with sorted keys, atomically: a reader sees the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")
