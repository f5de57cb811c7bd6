"""A batch whose missing arrays are an error of the config."""

from __future__ import annotations

from typing import Any

import jax

from attention_research.errors import ConfigError


@jax.tree_util.register_pytree_node_class
class NamedArrays(dict[str, Any]):
    """The arrays of a batch by name. A name that the data do not give raises ConfigError, in place of KeyError.

    >>> try:
    ...     NamedArrays(source=1, target=2)["label"]
    ... except ConfigError as error:
    ...     print(error)
    config.data.kind: its batches have source, target, not label, which the task, the model or an evaluation reads
    """

    def __missing__(self, name: str) -> Any:
        have = ", ".join(self)
        raise ConfigError(
            f"config.data.kind: its batches have {have}, not {name}, which the task, the model or an evaluation reads"
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """(arrays, names), for JAX."""
        names = tuple(sorted(self))
        return tuple(self[name] for name in names), names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], arrays: tuple[Any, ...]) -> NamedArrays:
        """The batch of these names and arrays, for JAX."""
        return cls(zip(names, arrays, strict=True))
