"""Freezing modules: turns parameters into constant statistics of the same names, which no optimizer updates."""

from __future__ import annotations

from flax import nnx


def freeze(module: nnx.Module) -> None:
    """Turns every parameter and running statistic of a module into a constant `nnx.BatchStat`, in place."""
    for name, value in list(vars(module).items()):
        if isinstance(value, nnx.Variable):
            setattr(module, name, nnx.BatchStat(value[...]))
        elif isinstance(value, nnx.List):
            for child in value:
                freeze(child)
        elif isinstance(value, nnx.Module):
            freeze(value)
