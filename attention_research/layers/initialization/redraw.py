"""Reinitialization of parameters by name, for use inside a constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jaxtyping import Array

from attention_research.layers.recurrent.lstm_forget_bias import ForgetBiasLSTMCell
from attention_research.layers.structure import path_name

#: (name, value, key) -> the initial value.
Draw = Callable[[str, Array, Array], Array]


def redraw(module: nnx.Module, draw: Draw, rngs: nnx.Rngs) -> None:
    """Replaces the value of every `nnx.Param` of a module by the result of `draw`. Each parameter has its own key."""
    found, _ = jax.tree_util.tree_flatten_with_path(module, is_leaf=lambda x: isinstance(x, nnx.Variable))
    parameters = [(path_name(path), variable) for path, variable in found if isinstance(variable, nnx.Param)]
    keys = jax.random.split(rngs.params(), max(1, len(parameters)))
    for (name, parameter), key in zip(parameters, keys, strict=False):
        parameter[...] = draw(name, parameter[...], key)


def owners(module: nnx.Module, name: str) -> list[nnx.Module]:
    """The modules on the path from `module` to the parameter `name`, including `module` and the owner."""
    found: list[Any] = [module]
    for part in name.split(".")[:-1]:
        found.append(found[-1][int(part)] if part.isdigit() else getattr(found[-1], part))
    return found


def starts_as_stated(owner: nnx.Module, last: str) -> bool:
    """Whether the layer itself states where its parameter `last` starts: a gain, an offset, an open forget gate."""
    return (
        last in ("gain", "offset") or last.endswith("scale") or isinstance(owner, ForgetBiasLSTMCell) and last == "bias"
    )
