"""Conversion between modules and flat dictionaries name -> array.

The train state, checkpoints and sharding rules use these dictionaries. `split` splits a module (concrete or abstract)
into a static `Structure`, its parameters and its statistics. `Structure.merge` rebuilds the module from arrays by name.
Modules exist only inside traced functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from flax import nnx

Arrays = dict[str, Any]


class RunningStatistic(nnx.BatchStat):
    """A statistic that training updates (`layers.running_statistics`), unlike a plain `nnx.BatchStat`."""


@dataclass(frozen=True)
class Structure:
    """The static part of a module: its tree structure, the names of its leaves in order, and its running statistics.

    `running` holds the names of the statistics that training updates (`layers.running_statistics`).
    """

    tree: Any
    names: tuple[str, ...]
    running: frozenset[str] = frozenset()

    def merge(self, parameters: Mapping[str, Any], statistics: Mapping[str, Any] | None = None) -> Any:
        """The module with these arrays. Raises KeyError with the missing and unexpected names."""
        arrays = {**parameters, **(statistics or {})}
        if arrays.keys() != set(self.names):
            missing, extra = sorted(set(self.names) - arrays.keys()), sorted(arrays.keys() - set(self.names))
            raise KeyError(f"merge: missing {missing or 'nothing'}, unexpected {extra or 'nothing'}")
        return jax.tree.unflatten(self.tree, [arrays[name] for name in self.names])


def path_name(path: tuple[Any, ...]) -> str:
    """The dotted name of a leaf, for example "encoder.norm.scale"."""
    return ".".join(str(getattr(entry, "name", getattr(entry, "idx", getattr(entry, "key", entry)))) for entry in path)


def split(module: Any) -> tuple[Structure, Arrays, Arrays]:
    """Splits a module into (structure, parameters, statistics). All arrays must be in `nnx.Param` or `nnx.BatchStat`.

    Raises ValueError if a module holds a bare array, or if two paths lead to the same variable (under jit, the two
    would become separate).

    >>> structure, parameters, statistics = split(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
    >>> sorted((name, array.shape) for name, array in parameters.items()), statistics
    ([('bias', (2,)), ('kernel', (3, 2))], {})
    >>> structure.merge(parameters)(jax.numpy.ones((1, 3))).shape
    (1, 2)
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
    """The result of `split` for the module that ``make(rngs)`` builds, without allocating arrays."""
    return split(jax.eval_shape(lambda key: make(nnx.Rngs(key)), jax.random.key(0)))


def initializer(make: Callable[[nnx.Rngs], Any]) -> Callable[[jax.Array], tuple[Arrays, Arrays]]:
    """A function key -> (parameters, statistics). Under `jax.jit`, its values do not depend on the sharding."""
    return lambda key: split(make(nnx.Rngs(key)))[1:]
