"""Parameters drawn anew by their names, inside a constructor."""

from __future__ import annotations

from collections.abc import Callable

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.structure import path_name

#: (name, value, key) -> the value to start from.
Draw = Callable[[str, Array, Array], Array]


def redraw(module: nnx.Module, draw: Draw, rngs: nnx.Rngs) -> None:
    """Replace the value of every `nnx.Param` of a module that is being built; each has a key of its own."""
    found, _ = jax.tree_util.tree_flatten_with_path(module, is_leaf=lambda x: isinstance(x, nnx.Variable))
    parameters = [(path_name(path), variable) for path, variable in found if isinstance(variable, nnx.Param)]
    keys = jax.random.split(rngs.params(), max(1, len(parameters)))
    for (name, parameter), key in zip(parameters, keys, strict=False):
        parameter[...] = draw(name, parameter[...], key)
