"""Replicas: one program trains R models with different seeds and scalar settings by `vmap`, as R single runs would.

A config with `training.replicas` stands for R configs of single runs, see `member_configs`. They differ only in
numbers. The joint program takes these numbers as arrays [R]: the seeds in its first state, the other settings by
`parallel.replica_settings`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from attention_research.config import Config, ConfigError, difference
from attention_research.config.record import flat
from attention_research.config.value_lists import parse_varied
from attention_research.parallel.replica_settings import Varied, scope

SEED, DATA_SEED = "training.seed", "training.data_seed"
#: Settings that may differ between replicas, besides the dropout rates: numbers that do not affect array shapes.
MAY_VARY = (SEED, "training.learning_rate", "task.label_smoothing")


def member_configs(config: Config) -> list[Config]:
    """The configs of the single runs that correspond to the replicas, or [config] if the config has no replicas.

    The values of `training.varied` are set in the config before it is resolved, so settings that inherit a varied value
    vary too. Each member sees the batches of the joint run. `training.data_seed` is set if the seed of the member would
    give other batches. Raises ConfigError if a list has another length than `training.replicas`, or if a setting cannot
    vary.

    >>> from attention_research.config import load
    >>> config = load("translation/transformer:cpu", [("training.replicas", "3")])
    >>> [member.resolved["training"]["seed"] for member in member_configs(config)]
    [0, 1, 2]
    """
    training = config.resolved["training"]
    replicas, first, lists = training["replicas"], training["seed"], parse_varied(training["varied"])
    if replicas == 1 and not lists:
        return [config]
    for path, values in lists.items():
        if len(values) != replicas:
            raise ConfigError(
                f"config.training.varied: {path} has {len(values)} value(s), training.replicas is {replicas}"
            )
    members = []
    for replica in range(replicas):
        member = config.override([(path, values[replica]) for path, values in lists.items()])
        _check(config, member)
        seed = member.resolved["training"]["seed"] if lists else first + replica
        data_seed = first if training["data_seed"] is None and seed != first else training["data_seed"]
        alone = [(SEED, seed), (DATA_SEED, data_seed), ("training.replicas", 1), ("training.varied", ())]
        members.append(member.override(alone))
    return members


def may_vary(path: str) -> bool:
    """Whether replicas may differ in this setting.

    >>> may_vary("training.learning_rate"), may_vary("model.num_heads")
    (True, False)
    """
    return path in MAY_VARY or path.endswith(".dropout_rate")


def _check(config: Config, member: Config) -> None:
    changed = [line.partition(":")[0] for line in difference(config, member)]
    fixed = [path for path in changed if not may_vary(path)]
    if fixed:
        raise ConfigError(
            f"config.training.varied: {fixed[0]} cannot differ between replicas; {', '.join(MAY_VARY)} and any "
            "dropout_rate can"
        )


def varied_values(members: Sequence[Config]) -> dict[str, np.ndarray]:
    """Path -> values [R] of the settings in which the members differ, except their seeds.

    >>> from attention_research.config import load
    >>> lists = "training.learning_rate=0.5,1.0"
    >>> config = load("translation/transformer:cpu", [("training.replicas", "2"), ("training.varied", lists)])
    >>> varied_values(member_configs(config))
    {'training.learning_rate': array([0.5, 1. ], dtype=float32)}
    """
    leaves = [flat(member.resolved) for member in members]
    return {
        path: np.asarray([mine[path] for mine in leaves], np.float32)
        for path, value in leaves[0].items()
        if path not in (SEED, DATA_SEED) and any(mine[path] != value for mine in leaves)
    }


def marked(config: Config, paths: Iterable[str]) -> Config:
    """The config with a `Varied` at each of these paths. A model and a task are built from it."""
    resolved = copy.deepcopy(config.resolved)
    for path in paths:
        *sections, leaf = path.split(".")
        node: Any = resolved
        for name in sections:
            node = node[int(name) if isinstance(node, list) else name]
        node[leaf] = Varied(node[leaf], path)
    return dataclasses.replace(config, resolved=resolved)


def side_by_side(
    step: Callable, start: Callable, varied: Mapping[str, np.ndarray] | None = None
) -> tuple[Callable, Callable]:
    """(step, start) for R replicas. Every array of the state has a leading axis [R]; all replicas share the batch.

    The sharding rules are right-aligned, so they also apply to arrays with this axis.
    """

    def one(state: Any, batch: Any, mine: Mapping[str, Any]) -> Any:
        with scope(mine):
            return step(state, batch)

    over_replicas = jax.vmap(one, (0, None, 0))
    return lambda state, batch: over_replicas(state, batch, dict(varied or {})), jax.vmap(start)
