"""A module as flat dictionaries name -> array, and back: what the train state, checkpoints and sharding rules hold.

`split` takes a module (real or abstract) apart into a static `Structure`, its parameters and its statistics;
`Structure.merge` puts one together again while tracing, by name. The module itself lives only inside traced functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from flax import nnx

Arrays = dict[str, Any]


class RunningStatistic(nnx.BatchStat):
    """A statistic that every step of training replaces (`layers.running_statistics`); a plain `nnx.BatchStat` stays as
    drawn."""


@dataclass(frozen=True)
class Structure:
    """The static half of a module: its tree, the name of each leaf in order, and which ones training replaces by what
    the module returns (`layers.running_statistics`)."""

    tree: Any
    names: tuple[str, ...]
    running: frozenset[str] = frozenset()

    def merge(self, parameters: Mapping[str, Any], statistics: Mapping[str, Any] | None = None) -> Any:
        """The module with these arrays. Raises KeyError naming what is missing or unexpected."""
        arrays = {**parameters, **(statistics or {})}
        if arrays.keys() != set(self.names):
            missing, extra = sorted(set(self.names) - arrays.keys()), sorted(arrays.keys() - set(self.names))
            raise KeyError(f"merge: missing {missing or 'nothing'}, unexpected {extra or 'nothing'}")
        return jax.tree.unflatten(self.tree, [arrays[name] for name in self.names])


def path_name(path: tuple[Any, ...]) -> str:
    """The dotted name of a leaf, as parameters are called everywhere."""
    return ".".join(str(getattr(entry, "name", getattr(entry, "idx", getattr(entry, "key", entry)))) for entry in path)


def split(module: Any) -> tuple[Structure, Arrays, Arrays]:
    """(structure, parameters, statistics) of a module whose every array is an `nnx.Param` or an `nnx.BatchStat`.

    Raises ValueError for a bare array on a module, and for a variable reached by two paths (jit would untie it).
    """
    variables, _ = jax.tree_util.tree_flatten_with_path(module, is_leaf=lambda x: isinstance(x, nnx.Variable))
    leaves, tree = jax.tree.flatten(module)
    seen: dict[int, str] = {}
    parameters: Arrays = {}
    statistics: Arrays = {}
    for (path, variable), leaf in zip(variables, leaves, strict=True):
        name = path_name(path)
        if not isinstance(variable, (nnx.Param, nnx.BatchStat)):
            raise ValueError(
                f"{name}: a bare {type(variable).__name__} on a module; wrap it in nnx.Param or nnx.BatchStat"
            )
        if id(variable) in seen:
            raise ValueError(f"{name}: the same variable as {seen[id(variable)]}; a tied weight has one owner")
        seen[id(variable)] = name
        (parameters if isinstance(variable, nnx.Param) else statistics)[name] = leaf
    names = tuple(path_name(path) for path, _ in variables)
    running = frozenset(path_name(path) for path, variable in variables if isinstance(variable, RunningStatistic))
    return Structure(tree, names, running), parameters, statistics


def abstract(make: Callable[[nnx.Rngs], Any]) -> tuple[Structure, Arrays, Arrays]:
    """`split` of the module that ``make(rngs)`` would build, without allocating it."""
    return split(jax.eval_shape(lambda key: make(nnx.Rngs(key)), jax.random.key(0)))


def initializer(make: Callable[[nnx.Rngs], Any]) -> Callable[[jax.Array], tuple[Arrays, Arrays]]:
    """key -> (parameters, statistics). Under `jax.jit` sharded, replicated and plain starts are the same bits."""
    return lambda key: split(make(nnx.Rngs(key)))[1:]
