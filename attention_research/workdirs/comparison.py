"""`compare`: reads runs side by side: their numbers, and the differences of their configs and environments.

`workdirs.comparison_text` prints them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError, difference
from attention_research.config.record import flat
from attention_research.errors import RunError
from attention_research.workdirs.reading import Run, is_run

#: Entries of environment.json that differ between any two runs. `earlier` describes earlier processes of a run, and
#: `from_step` says where the last one continued.
_ALWAYS_DIFFERENT = ("date", "command", "earlier", "from_step")
_ABSENT = "(absent)"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Runs in the order given. Each mapping holds, under a name, one value for each run.

    `numbers` holds all numbers; with replicas, losses and scores are means over them, and `spreads` holds the sample
    standard deviations of the scores. `config`, `environment` and `scoring` hold only the entries that differ.
    `scoring` is the checkpoint, the split and the signatures of the scores, if all runs have them: scores with
    different signatures are not comparable.
    """

    runs: tuple[str, ...]
    hashes: tuple[str, ...]
    numbers: Mapping[str, list[float | None]]
    spreads: Mapping[str, list[float | None]]
    config: Mapping[str, list[Any]]
    environment: Mapping[str, list[Any]]
    scoring: Mapping[str, list[Any]]

    def as_json(self) -> dict[str, Any]:
        """The comparison as an object for `--json`."""
        return dataclasses.asdict(self)


def compare(folders: Sequence[Path], report: Callable[[str], None] = lambda line: None) -> Comparison:
    """Compares two or more runs. Among more than two, an unreadable run is reported and left out. A damaged file of a
    run, such as evaluation.json, is reported and counts as missing.

    Raises ConfigError if a folder has no run, or if fewer than two runs can be read.
    """
    if len(folders) < 2:
        raise ConfigError("compare: name two runs or more, for example runs/first runs/second")
    runs, failed = [], []
    for folder in folders:
        try:
            runs.append(Run.read(folder))
        except (ConfigError, RunError) as error:
            if not is_run(folder):
                raise
            failed.append(str(error))
    if len(runs) < 2:
        raise ConfigError(failed[0])
    for line in failed:
        report(f"left out: {line}")
    for run in runs:
        for name in run.damaged:
            report(f"{run.folder / name}: damaged, so that its entries are missing here")
    numbers = [{**run.numbers(), **run.further_scores} for run in runs]
    environments = [_without(run.environment, _ALWAYS_DIFFERENT) for run in runs]
    scored = [_scoring(run.evaluation) for run in runs]
    return Comparison(
        runs=tuple(str(run.folder) for run in runs),
        hashes=tuple(run.config.hash for run in runs),
        numbers=_by_name(numbers),
        spreads=_by_name([run.spreads for run in runs]),
        config=_differing([run.config for run in runs]),
        environment=_differing(environments),
        scoring=_differing(scored) if all(scored) else {},
    )


def _scoring(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """The step and choice of the checkpoint, the steps of a mean, the split and the signatures of the scores.

    The split and the signatures of a further evaluation are under names such as "NAME.split".
    """
    kept = lambda one: {name: x for name, x in one.items() if name == "split" or "signature" in name}
    read = {name: evaluation[name] for name in ("step", "checkpoint") if name in evaluation}
    averaged = evaluation.get("averaged")
    if isinstance(averaged, list) and len(averaged) > 1:
        read["averaged"] = averaged
    further = evaluation.get("evaluations", {}).items()
    return read | kept(evaluation) | {f"{name}.{key}": x for name, one in further for key, x in kept(one).items()}


def _by_name(documents: Sequence[Mapping[str, float | None]]) -> dict[str, list[float | None]]:
    """Name -> its value in each document, in order, for every name that has a value in some document."""
    names = dict.fromkeys(name for one in documents for name, value in one.items() if value is not None)
    return {name: [one.get(name) for one in documents] for name in names}


def _without(section: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name not in names}


def _differing(documents: Sequence[Config | dict[str, Any]]) -> dict[str, list[Any]]:
    """Path -> one value for each document, for the leaves in which some document differs from the first."""
    first, *others = documents
    paths = [line.partition(": ")[0] for other in others for line in difference(first, other)]
    leaves = [flat(one.resolved if isinstance(one, Config) else one) for one in documents]
    return {path: [one.get(path, _ABSENT) for one in leaves] for path in dict.fromkeys(paths)}
