"""Groups of trials that are trained together: trials that differ only in seeds and scalars are replicas of one run.

The joint run is a trial under ``groups/`` in the study's folder, with the stages "train" and "split". The stage "split"
splits the run: each trial's folder becomes that of a trained run, and the trial continues from there. If a group cannot
train, because a replica diverges or the memory does not suffice, its trials train separately.

A group that has begun keeps its trials. It continues from its last checkpoint, whatever other trials are there the next
time: trials of further seeds form groups of their own. A group in which a replica has diverged is not trained again.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError, resolve
from attention_research.config.record import flat
from attention_research.config.values import spell
from attention_research.studies.staleness import Stale, state_of
from attention_research.studies.study import digest
from attention_research.studies.trial_folders import (
    Folder,
    outcome_path,
    read_outcome,
    read_program,
    read_result,
    write_json,
)
from attention_research.studies.trials import Trial
from attention_research.training.replicas import DATA_SEED, SEED, may_vary, member_configs


@dataclasses.dataclass(frozen=True)
class Group:
    """A joint trial, which trains the `members` together. Members are the trials that wait for it in this session."""

    trial: Trial
    members: tuple[Trial, ...]


def grouped(trials: Sequence[Trial], folder: Folder) -> list[Group]:
    """The groups that have begun, then new groups of two or more trials that can train together and have not started.

    Trials with `training.stop_at` train alone, since each of them ends at its own step, and so do trials under pmap,
    which has no replicas.
    """
    continued, placed = _continued(trials, folder)
    alike: dict[str, list[tuple[Trial, Config]]] = {}
    for trial in trials:
        if trial.given is None or trial.stages[0]["kind"] != "train" or _begun(folder.trial(trial)):
            continue
        if trial.id in placed:
            continue
        config = resolve(trial.given)
        training = config.resolved["training"]
        alone = training["stop_at"] is not None or config.resolved["parallel"]["strategy"] == "pmap"
        if training["replicas"] == 1 and not alone:
            alike.setdefault(_rest(config), []).append((trial, config))
    return [*continued, *(_group(found, folder) for found in alike.values() if len(found) > 1)]


def prepare(group: Group, folder: Folder) -> Path:
    """Prepares the folder of a group for a worker, and returns it. A group that has trained only splits again."""
    place = folder.prepare(group.trial, rerun_stale=True, folder=folder.group(group.trial.id))
    (place / "result.json").unlink(missing_ok=True)
    outcome_path(place, group.trial.stages[-1]).unlink(missing_ok=True)
    return place


def _continued(trials: Sequence[Trial], folder: Folder) -> tuple[list[Group], set[str]]:
    """The groups that have begun and that some of these trials need, and the ids of the trials of begun groups.

    The trials of a group that cannot train run alone: a replica has diverged, or the group has failed and its trials
    have begun alone since then. A group that another program has begun does not count.
    """
    found, placed = [], set[str]()
    waiting = {folder.trial(trial): trial for trial in trials if not _trained(folder.trial(trial), trial.stages)}
    for file in sorted(folder.group("").glob("*/trial.json")):
        place = file.parent
        joint = _read(place) if _begun(place) else None
        if joint is None:
            continue
        names = [Path(path).name for path in joint.stages[-1]["settings"]["trials"]]
        paths = [folder.workdir / "trials" / name for name in names]
        members = [waiting[path] for path in paths if path in waiting and waiting[path].id not in placed]
        if not members:
            continue
        joint = dataclasses.replace(joint, fingerprint=members[0].fingerprint)
        if isinstance(state_of(joint, {"program": read_program(place)}), Stale):
            continue
        placed |= {trial.id for trial in members}
        diverged = (read_result(place) or {}).get("diverged")
        left = (place / "error.txt").exists() and any(map(_begun, paths))
        if _trained(place, joint.stages) or not (diverged or left):
            found.append(Group(joint, tuple(members)))
    return found, placed


def _read(place: Path) -> Trial | None:
    """The joint trial in a group's folder; None if its file is damaged."""
    try:
        trial = json.loads((place / "trial.json").read_text(encoding="utf-8"))
        return Trial(**{**trial, "stages": tuple(trial["stages"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _trained(folder: Path, stages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the first stage of the trial in this folder, its training, has an outcome."""
    return read_outcome(outcome_path(folder, stages[0])) is not None


def _begun(folder: Path) -> bool:
    return any(any((folder / name).glob("*")) for name in ("stages", "checkpoints"))


def _data_seed(config: Config) -> int:
    training = config.resolved["training"]
    return training["seed"] if training["data_seed"] is None else training["data_seed"]


def _rest(config: Config) -> str:
    """A digest of what members of a group must share: settings that replicas cannot vary, and the data seed."""
    fixed = {path: value for path, value in flat(config.resolved).items() if not may_vary(path) and path != DATA_SEED}
    return digest([fixed, _data_seed(config)])


def _group(found: list[tuple[Trial, Config]], folder: Folder) -> Group:
    # A member without a data_seed comes first, if there is one: its seed then sets the data order of the group.
    found = sorted(found, key=lambda one: one[1].resolved["training"]["data_seed"] is not None)
    trials, configs = [trial for trial, _ in found], [config for _, config in found]
    leaves = [flat(config.resolved) for config in configs]
    differ = [path for path in leaves[0] if may_vary(path) and len({str(mine[path]) for mine in leaves}) > 1]
    lists = [f"{path}={','.join(spell(mine[path]) for mine in leaves)}" for path in dict.fromkeys([SEED, *differ])]
    joint = configs[0].override(
        [("training.replicas", len(found)), ("training.varied", tuple(lists)), *_each_best(configs[0])]
    )
    for trial, config, member in zip(trials, configs, member_configs(joint), strict=True):
        if member.identity != config.identity:
            raise ConfigError(f"trial {trial.id}: what it would be in a group is another trial")
    address = digest([trial.stages[0]["address"] for trial in trials])
    settings = {"trials": [os.path.relpath(folder.trial(trial), folder.group(address)) for trial in trials]}
    stages = (trials[0].stages[0], {"kind": "split", "settings": settings, "function": None})
    names = ", ".join(dict.fromkeys(trial.name for trial in trials))
    return Group(
        dataclasses.replace(
            trials[0],
            id=address,
            name=f"{len(found)} together: {names}",
            identity=joint.identity,
            config_hash=joint.hash,
            given=json.loads(json.dumps(joint.given)),
            stages=tuple({**stage, "address": digest([address, stage["kind"]])} for stage in stages),
            count=False,
        ),
        tuple(trials),
    )


def _each_best(config: Config) -> list[tuple[str, Any]]:
    """Keeps the checkpoints of all evaluations if members use their best checkpoint, which differs between them."""
    training = config.resolved["training"]
    if training["chosen_checkpoint"] != "best":
        return []
    return [("training.keep_best", training["steps"] // training["eval_every"] + 1)]


class InOrder:
    """Iterates over the folders of trials in the order in which they may run, for `runners.loop.run`.

    The members of a group come right after it and before other groups, so that rows finish one after the other.
    `folders` maps the id of each trial to its folder, `groups` the folder of each group to the group. The iterator
    yields None while members wait for their group. `report` must be called when a group ends.
    """

    def __init__(
        self, folders: Mapping[str, Path], groups: dict[Path, Group], report: Callable[[Path, str, str], None]
    ):
        self.members = {path: [folders[trial.id] for trial in group.members] for path, group in groups.items()}
        waiting = {path for members in self.members.values() for path in members}
        self.first = [*groups, *(path for path in folders.values() if path not in waiting)]
        self.ready: list[Path] = []
        self.told = report

    def report(self, folder: Path, state: str, line: str) -> None:
        """Notes the new state of a trial or a group. The runner calls it."""
        if folder in self.members and state in ("done", "failed"):
            self.ready += self.members.pop(folder)
            stopped = read_result(folder) or {}
            if state == "failed" or stopped.get("diverged"):
                state, line = "failed", f"{line or stopped['diverged']}; its trials run alone"
        elif state in ("stopped", "left"):  # the members run after the group, the next time
            self.members.pop(folder, None)
        self.told(folder, state, line)

    def __iter__(self) -> Iterator[Path | None]:
        while self.first or self.members or self.ready:
            coming = self.ready or self.first
            yield coming.pop(0) if coming else None


def split(stage: dict[str, Any], config: Config, folder: Path) -> dict[str, Any]:
    """The stage "split" of a joint trial: writes each trained replica, with its result, to the folder of its trial.

    Trials that are trained already are left as they are, so that a group whose split was interrupted can split again.
    """
    from attention_research.studies.worker import begin
    from attention_research.training import split_replicas
    from attention_research.training.run import final_loss

    joint = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    train = json.loads(outcome_path(folder, joint["stages"][0]).read_text(encoding="utf-8"))
    members: list[Path | None] = []
    for relative in stage["settings"]["trials"]:
        member = folder / relative
        trial = read_outcome(member / "trial.json")
        if trial is None or _trained(member, trial["stages"]):
            members.append(None)
            continue
        begin(member, trial)  # before the first checkpoint, so that an interrupted split has a program
        members.append(member)
    split_replicas.split(folder, config, members)
    for member in filter(None, members):
        (first, *_) = json.loads((member / "trial.json").read_text(encoding="utf-8"))["stages"]
        result = {**train, **final_loss(member), "replicas": len(members)}
        write_json(outcome_path(member, first), result)
    return {"trials": len(members)}
