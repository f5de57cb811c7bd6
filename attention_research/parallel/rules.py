"""Sharding rules for parameter names: (pattern, mesh axes of one layer's weight, right-aligned).

Axes are right-aligned, so that the layer axis of a stack and the replica axis need no rule. The first matching rule
applies. A mesh axis that does not divide its dimension is left out. Model code does not use these rules; the few
modules that name a mesh axis use `parallel.scope`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from attention_research.errors import ConfigError

RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"experts\.(.*\.)?output\.kernel$", ("expert", "tensor", "fsdp")),
    (r"experts\.(.*\.)?kernel$", ("expert", "fsdp", "tensor")),
    (r"experts\.(.*\.)?bias$", ("expert", None)),
    # The columns of a recurrent cell hold its gates side by side. Splitting them would separate a gate from its state.
    (r"(input|state)_kernel$", ("fsdp", None)),
    # The columns belong to heads or hidden units: a gate is split like the values that it multiplies.
    (r"(query|key|value|hidden|\w+_up|from_\w+)\.kernel$", ("fsdp", "tensor")),
    (r"(self_attention|cross_attention|feed_forward)\w*\.gate\.kernel$", ("fsdp", "tensor")),
    (r"(self_attention|cross_attention)\w*\.linear\.kernel$", ("fsdp", "tensor")),
    (r"output\.kernel$", ("tensor", "fsdp")),
    # The embedding tables of a vocabulary: rows are tokens.
    (r"vocabulary\.[\w.]*table$", ("tensor", "fsdp")),
    # The values of a memory layer are read row by row, so their columns are split over `tensor`, not their rows.
    (r"feed_forward\w*\.table$", ("fsdp", "tensor")),
    (r"(output|up)_kernel$", ("fsdp", "tensor")),
    # Linformer's projections [R S] are applied to the keys of each head, so that they are whole along `tensor`. The
    # sub-keys of a memory layer are [N 2 C H].
    (r"(kernel|weight|table|_projection|_factor|feed_forward\w*\.keys)$", ("fsdp", None)),
    (r"", ()),
)
#: The mesh axes over which the rows of a batch are split. Its positions, the second axis, are split over SEQUENCE.
ROWS = ("data", "fsdp", "expert")
SEQUENCE = "sequence"


#: Parameters of stacked layers. Each layer's parameters are gathered when the layer runs.
STACKED = re.compile(r"(^|\.)segments\.\d+\.")


def spec(name: str, shape: tuple[int, ...], sizes: Mapping[str, int]) -> PartitionSpec:
    """The partition spec of a parameter with this name and shape, on a mesh with these axis sizes.

    >>> spec("segments.0.feed_forward.hidden.kernel", (64, 256), {"data": 2, "fsdp": 2, "tensor": 2})
    P('fsdp', 'tensor')
    """
    axes = next(axes for pattern, axes in RULES if re.search(pattern, name))[-len(shape) :] if shape else ()
    axes = (None,) * (len(shape) - len(axes)) + tuple(axes)
    fits = (a if a and sizes[a] > 1 and size % sizes[a] == 0 else None for a, size in zip(axes, shape, strict=True))
    return PartitionSpec(*fits)


def check_tensor(parameters: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raises ConfigError if the mesh axis `tensor` divides no parameter. Its devices would all do the same work.

    The other axes divide the rows or the positions of a batch, too.
    """
    count = sizes["tensor"]
    if count > 1 and not any("tensor" in spec(name, x.shape, sizes) for name, x in parameters.items()):
        raise ConfigError(
            f"config.parallel.mesh.tensor: {count} divides no parameter of the model, so that {count} devices would do "
            "the same work; choose a divisor of its widths, or give the devices to data"
        )


def state_shardings(state: Any, mesh: jax.sharding.Mesh) -> Any:
    """A sharding for every array of a (possibly abstract) train state.

    The moments of a parameter have the sharding of the parameter, whose name is the last dictionary key on their path.
    Everything else is replicated. Moments with another shape are replicated too, such as Adafactor's row and column
    moments [n] and [m] of a matrix [n m]: the axes of the rule do not fit them, and they are small.
    """
    shapes = {name: x.shape for name, x in state["parameters"].items()}

    def of(path: tuple[Any, ...], x: Any) -> NamedSharding:
        name = next((entry.key for entry in reversed(path) if isinstance(entry, jax.tree_util.DictKey)), "")
        follows = shapes.get(name) == x.shape
        return NamedSharding(mesh, spec(name, x.shape, dict(mesh.shape)) if follows else PartitionSpec())

    return jax.tree_util.tree_map_with_path(of, state)
