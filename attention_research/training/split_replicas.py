"""Splits a finished run with replicas into single runs (`split`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import jax

from attention_research.config import Config, ConfigError, build, difference
from attention_research.data import kept
from attention_research.errors import RunError
from attention_research.parallel.rules import state_shardings
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.claiming import claim
from attention_research.training.metrics_log import read_metrics
from attention_research.training.replicas import member_configs
from attention_research.training.selection import criterion_of
from attention_research.training.trainer import Trainer
from attention_research.training.workdir import json_text, load_config, locked, read_environment, write_json, write_text


def split(workdir: Path, config: Config, folders: Sequence[Path | None]) -> None:
    """Writes each replica of the run of `config` in `workdir` to its own folder, as if it had been a single run.

    A folder receives the config.json of the replica, the environment.json of the run with "replica" and "replicas", the
    lines of the replica in metrics.jsonl, and its slice of the checkpoints that it keeps by its own settings and
    numbers. `evaluate`, `generate`, `export` and `train` work on the folder as on any other run. Speeds in
    metrics.jsonl are those of the joint run, and a folder has no other checkpoints than the joint run: those of its
    `training.keep_best` are the ones with the lowest mean loss over the replicas. After an interruption, a second call
    continues. None in place of a folder leaves out that replica.

    Raises ConfigError if the config is not that of the run, if it has no replicas, or if a folder holds another run.
    Raises RunError if the run has not finished.
    """
    members, steps = member_configs(config), config.resolved["training"]["steps"]
    if len(members) == 1:
        raise ConfigError("config.training.replicas: 1; only a run with several replicas can be split")
    changes = [line for line in difference(load_config(workdir), config) if not line.startswith("parallel.")]
    if changes:
        raise ConfigError(f"{workdir} holds a run of another config ({'; '.join(changes)})")
    with ExitStack() as stack:
        whole = stack.enter_context(Checkpoints(workdir))
        if whole.latest() != steps:
            raise RunError(f"{workdir}: the run has not finished ({whole.latest() or 0} of {steps} steps)")
        singles: dict[int, Checkpoints] = {}
        for replica, (folder, member) in enumerate(zip(folders, members, strict=True)):
            if folder is None:
                continue
            stack.enter_context(locked(folder))
            claim(folder, member)
            _write_texts(workdir, folder, replica, len(members))
            settings, criterion = build(member.resolved["training"], "training")(), criterion_of(member)
            singles[replica] = stack.enter_context(Checkpoints(folder, settings, criterion=criterion))
            singles[replica].clean()
        execution = Trainer(config, alone=True).execution
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), execution.abstract)
        shardings = state_shardings(one, execution.mesh)
        for step in filter(whole.whole, whole.steps()):
            without = [replica for replica, own in singles.items() if step not in own.steps()]
            state = whole.restore(step, execution.abstract) if without else None
            for replica in without:
                mine = jax.tree.map(lambda x, replica=replica: x[replica], state)
                singles[replica].save(step, jax.device_put(mine, shardings))


def _write_texts(workdir: Path, folder: Path, replica: int, replicas: int) -> None:
    environment = read_environment(workdir)
    write_json(folder / "environment.json", {**environment, "replica": replica, "replicas": replicas})
    kept.copy(workdir, folder)
    lines = [line for line in read_metrics(workdir) if line.pop("replica") == replica]
    write_text(folder / "metrics.jsonl", "".join(json_text(line) + "\n" for line in lines))
