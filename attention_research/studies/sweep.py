"""Sweeps: ``--over PATH=v1,v2`` makes a study without a file from a config, with one row for each combination."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.config.files import split
from attention_research.errors import ConfigError
from attention_research.studies.axes import only_values, read_axes
from attention_research.studies.run import RUNS, reproduce
from attention_research.studies.study import Row, Scale, Study, digest
from attention_research.studies.trials import configuration


def sweep(
    config: str,
    over: Sequence[str],
    *,
    overrides: Sequence[tuple[str, Any]] = (),
    seeds: int | None = None,
    runner: str = "local",
    jobs: int | None = None,
    machines: Mapping[str, Any] | None = None,
    workdir: Path | None = None,
    stale: str = "keep",
    replicas: bool = False,
    as_json: bool = False,
) -> int:
    """Trains and evaluates every combination of the values in ``over``.

    ``over`` holds texts such as ``model.num_heads=1,4,8``. ``overrides`` apply to every row. ``replicas`` is that of
    `Scale`. The other arguments and the return value are those of `reproduce`.
    """
    study = sweep_study(config, over, overrides=overrides, seeds=seeds or 1, jobs=jobs or 1, replicas=replicas)
    first = configuration(study, "sweep", study.rows[0])
    together = first.resolved["training"]["replicas"] if first else 1
    if together > 1:
        line = f"a sweep trains one run a trial; give --seeds={together} --replicas instead"
        raise ConfigError(f"config.training.replicas={together}: {line}")
    stem = Path(split(config)[0]).stem
    workdir = workdir or RUNS / f"sweep-{stem}-{digest([config, list(over), [[k, repr(v)] for k, v in overrides]], 8)}"
    return reproduce(
        study, scale="sweep", runner=runner, jobs=jobs, machines=machines, workdir=workdir, stale=stale, as_json=as_json
    )


def sweep_study(
    config: str,
    over: Sequence[str],
    *,
    overrides: Sequence[tuple[str, Any]] = (),
    seeds: int = 1,
    jobs: int = 1,
    replicas: bool = False,
) -> Study:
    """The study that `sweep` runs, which has no file.

    >>> study = sweep_study("translation/transformer:cpu", ["model.num_heads=1,4", "model.dropout_rate=0,0.1"])
    >>> [row.name for row in study.rows]
    ['num_heads=1, dropout_rate=0', 'num_heads=1, dropout_rate=0.1', 'num_heads=4, dropout_rate=0', ...]
    """
    axes = only_values(read_axes(over, overrides))
    if "training.seed" in axes and seeds > 1:
        raise ConfigError(
            f"--seeds={seeds}: --over training.seed gives the seeds of the rows; leave one of the two out"
        )
    rows = rows_of([dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())])
    scale = Scale(config, dict(overrides), seeds=seeds, jobs=jobs, replicas=replicas)
    options = [*([f"--seeds={seeds}"] if seeds > 1 else []), *(["--replicas"] if replicas else [])]
    given = shell_command("sweep", config, over, overrides, *options)
    title = f"Sweep of {config} over {', '.join(axes)}"
    return Study(rows, {"sweep": scale}, title=title, name="sweep", notes=(given,))


def shell_command(
    name: str, config: str, over: Sequence[str], overrides: Sequence[tuple[str, Any]], *options: str
) -> str:
    """The command that was given, for a shell.

    >>> shell_command("sweep", "mine.py:cpu", ["model.num_heads=1,2"], [("data.train", "a b,c")])
    "attention-research sweep --config=mine.py:cpu '--config.data.train=a b,c' --over model.num_heads=1,2"
    """
    given = [f"--config={config}", *(f"--config.{path}={value}" for path, value in overrides)]
    given += itertools.chain.from_iterable(("--over", text) for text in over)
    return shlex.join(["attention-research", name, *given, *options])


def rows_of(settings: Sequence[Mapping[str, str]]) -> tuple[Row, ...]:
    """One row for each {path: value}, named by its values. All must have the same paths.

    >>> [row.id for row in rows_of([{"model.num_heads": "1"}, {"model.num_heads": "4"}])]
    ['num_heads=1', 'num_heads=4']
    """
    rows, ids = [], set()
    for values in settings:
        short = _short_names([*values])
        name = ", ".join(f"{short[path]}={value}" for path, value in values.items())
        row_id = slug = re.sub(r"[^a-z0-9_.=-]+", "-", name.lower()).strip("-")
        for number in itertools.count(2):
            if row_id not in ids:
                break
            row_id = f"{slug}-{number}"
        ids.add(row_id)
        rows.append(Row(row_id, name, dict(values)))
    return tuple(rows)


def _short_names(paths: list[str]) -> dict[str, str]:
    """Path -> its shortest suffix that is unique among the paths; ``section.kind`` is shown as ``section``."""
    names = {}
    for path in paths:
        parts = path.split(".")
        length = 2 if parts[-1] == "kind" and len(parts) > 1 else 1
        while length < len(parts) and any(_ends(other, parts[-length:]) for other in paths if other != path):
            length += 1
        shown = parts[-length:-1] if parts[-1] == "kind" and length > 1 else parts[-length:]
        names[path] = ".".join(shown)
    if len(set(names.values())) < len(names):
        return {path: path for path in paths}
    return names


def _ends(path: str, parts: list[str]) -> bool:
    return path.split(".")[-len(parts) :] == parts
