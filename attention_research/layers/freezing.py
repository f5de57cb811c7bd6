"""A module that no optimizer sees: its parameters become statistics of the same names, which stay as they are."""

from __future__ import annotations

from flax import nnx


def freeze(module: nnx.Module) -> None:
    """Every parameter and running statistic of a module that is being built becomes a statistic that stays."""
    for name, value in list(vars(module).items()):
        if isinstance(value, nnx.Variable):
            setattr(module, name, nnx.BatchStat(value[...]))
        elif isinstance(value, nnx.List):
            for child in value:
                freeze(child)
        elif isinstance(value, nnx.Module):
            freeze(value)
