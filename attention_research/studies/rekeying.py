"""Carries recorded trials to new ids, after a change of how trials are identified or of where their sources are.

A trial's id is a hash (`studies.trials`), and its program holds hashes of sources (`studies.fingerprints`). A change
that moves code, renames a setting or raises the version of the identity in `config.record` changes these hashes, but
not what a trial measures. This module updates the records, so that no trial is lost or counts as stale:

    python -m attention_research.studies.rekeying write PLAN.json    at the last commit before the change
    python -m attention_research.studies.rekeying apply PLAN.json    after it, before it is committed

`write` plans all trials of all recorded tables. `apply` plans them again, finds each trial by its study, scale, row,
seed and point, and writes its new id, identity, config and hashes into the record. It replaces a hash only if the
record has the hash that `write` found, so that stale trials stay stale. Tables and figures do not change. Use it only
for a change that leaves the results the same: nothing here can check that.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attention_research import bundled
from attention_research.config import ConfigError
from attention_research.studies import fingerprints, floors, records
from attention_research.studies.loading import study_of_record
from attention_research.studies.sources import Sources
from attention_research.studies.trial_folders import write_json
from attention_research.studies.trials import Trial
from attention_research.training.environment import fingerprint

#: Address of a planned trial -> its id, its hashes and its configuration.
Plan = dict[str, dict[str, Any]]
#: The fields of a recorded trial that identify it.
_NAMES = ("id", "identity", "config_hash", "given")


def write(experiments: Path | None = None) -> Plan:
    """The plan of all recorded tables, by the present code."""
    package, sources, found = fingerprint(), Sources(), {}
    for folder in records.recorded(experiments or bundled.folder("experiments")):
        study, scale = study_of_record(folder)
        trials = floors.plan_with_floors(study, scale, study.rows_at(scale), None, package)
        for place, trial in _placed(trials):
            found[f"{study.name} {scale} {place}"] = {
                **{name: getattr(trial, name) for name in _NAMES},
                "sources": trial.fingerprint,
                "parts": _parts(trial, sources),
            }
    return found


def apply(before: Plan, after: Plan, experiments: Path | None = None) -> Counter[str]:
    """Carries the records from one plan to the other. Counts the trials as "renamed", "kept" or "not planned".

    If several planned trials shared a record and now have different ids, the record is written once for each id. Raises
    ConfigError, before anything is written, if a trial of `before` is not in `after`.
    """
    lost = [address for address in before if address not in after]
    if lost:
        raise ConfigError(f"{len(lost)} planned trials are gone, first {lost[0]!r}; re-keying is for moves alone")
    moves: dict[str, dict[str, tuple[Mapping, Mapping]]] = {}
    for address, old in before.items():
        moves.setdefault(old["id"], {}).setdefault(after[address]["id"], (old, after[address]))
    said: Counter[str] = Counter()
    for folder in records.recorded(experiments or bundled.folder("experiments")):
        trials = []
        for id, trial in records.read(folder).items():
            trials += [_renamed(trial, *move) for move in moves.get(id, {}).values()] or [trial]
            said["not planned" if id not in moves else "kept" if id in moves[id] else "renamed"] += 1
        records.write(folder, records.text_of(trials))
    return said


def _placed(trials: list[Trial]) -> Iterator[tuple[str, Trial]]:
    """Each trial with an address that does not depend on its id: row, seed and point, or the position of a floor."""
    count = 0
    for trial in trials:
        if trial.row == floors.FLOORS:
            count += 1
            yield f"{floors.FLOORS} {count}", trial
        else:
            yield f"{trial.row} {trial.repeat} {trial.point}", trial


def _parts(trial: Trial, sources: Sources) -> dict[str, str]:
    """The hashes of a trial's program that depend on its sources and its config, without those of lowered programs."""
    measured = fingerprints.measurements(trial.stages, sources)
    return {**measured, **fingerprints.descriptions(trial.stages, trial.given, sources)}


def _renamed(trial: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(trial)
    for name in _NAMES:
        if name in found and found[name] == old[name]:
            found[name] = new[name]
    if "program" in found:
        was, now = {**old["parts"], "sources": old["sources"]}, {**new["parts"], "sources": new["sources"]}
        found["program"] = {
            name: now[name] if name in now and was.get(name) == value else value
            for name, value in found["program"].items()
        }
        found["fingerprint"] = fingerprints.line(found["program"])
    return found


if __name__ == "__main__":
    what, file = sys.argv[1], Path(sys.argv[2])
    if what == "write":
        write_json(file, write())
    else:
        counted = apply(json.loads(file.read_text(encoding="utf-8")), json.loads(json.dumps(write())))
        print(", ".join(f"{number} {name}" for name, number in counted.items()), file=sys.stderr)
