"""Plans trials. A trial is one row of a study with one random seed, at one point.

A trial's id is the address of its last stage: a hash of the config's identity and of all stages. Two rows with equal
settings share a trial, so that it is run once.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attention_research import config as configs
from attention_research.studies import finetuning, fingerprints
from attention_research.studies.loading import reference
from attention_research.studies.sources import Sources
from attention_research.studies.study import Row, Scale, Stage, Study, digest


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
            if stage.of is not None:
                wanted |= {"of": stage.of, "folder": _of_row(row, partial(finetuning.folder_of, stage.of, stages))}
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
