"""Replicas: R random seeds and scalar settings trained in one program, by `vmap`, each as its own single run would be.

A config with `training.replicas` is R configs of single runs, `member_configs`. They differ in numbers only, which the
program that trains them together takes as arrays [R]: seeds as its first state, the others by
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
#: What may differ between replicas, beside the models' dropout rates: numbers of which no array's shape is made.
MAY_VARY = (SEED, "training.learning_rate", "task.label_smoothing")


def member_configs(config: Config) -> list[Config]:
    """The configs of the single runs that a config's replicas are; itself where it has none.

    `training.varied` is set in what the config was given and resolved, so that what inherits a setting varies with it.
    Each sees the batches of the joint run: `training.data_seed` says so where the member's own seed would not. Raises
    ConfigError for a list of another length than `training.replicas`, and for what cannot vary.
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
    """Whether replicas can differ in this setting."""
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
    """Path -> [R] of the settings in which the members differ, their seeds apart."""
    leaves = [flat(member.resolved) for member in members]
    return {
        path: np.asarray([mine[path] for mine in leaves], np.float32)
        for path, value in leaves[0].items()
        if path not in (SEED, DATA_SEED) and any(mine[path] != value for mine in leaves)
    }


def marked(config: Config, paths: Iterable[str]) -> Config:
    """The config with a `Varied` at each of these paths, to build a model and a task from."""
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
    """(step, start) of R replicas: every array of the state has a leading axis [R], the batch is one for all.

    Sharding rules are right-aligned and need no word of that axis.
    """

    def one(state: Any, batch: Any, mine: Mapping[str, Any]) -> Any:
        with scope(mine):
            return step(state, batch)

    over_replicas = jax.vmap(one, (0, None, 0))
    return lambda state, batch: over_replicas(state, batch, dict(varied or {})), jax.vmap(start)
