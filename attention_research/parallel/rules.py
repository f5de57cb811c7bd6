"""Sharding as a table of rules over parameter names: (pattern, axes of ONE layer's weight, right-aligned).

Right-aligned, so that a stack's layer axis and a replica axis need no rule. The first match wins; an axis that does not
divide the dimension is left out. No model code knows of any of this; what it must say of a mesh is `parallel.scope`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"experts\.(.*\.)?output\.kernel$", ("expert", "tensor", "fsdp")),
    (r"experts\.(.*\.)?kernel$", ("expert", "fsdp", "tensor")),
    (r"experts\.(.*\.)?bias$", ("expert", None)),
    # A recurrent cell's gates lie side by side in the columns: splitting those would part a gate from its state.
    (r"(input|state)_kernel$", ("fsdp", None)),
    (r"(query|key|value|hidden|feed_forward\w*\.gate|from_\w+)\.kernel$", ("fsdp", "tensor")),
    (r"output\.kernel$", ("tensor", "fsdp")),
    # Of whatever parts a vocabulary is made: rows are tokens.
    (r"vocabulary\.[\w.]*table$", ("tensor", "fsdp")),
    # A memory's values, which are read row by row: every device has its columns of all of them.
    (r"feed_forward\w*\.table$", ("fsdp", "tensor")),
    (r"output_kernel$", ("fsdp", "tensor")),
    (r"(kernel|weight|table)$", ("fsdp", None)),
    (r"", ()),
)
#: What the rows of a batch are split over; its positions, the second axis, are split over SEQUENCE.
ROWS = ("data", "fsdp", "expert")
SEQUENCE = "sequence"


#: The layers of a stack lie side by side in its arrays; a layer's are gathered when its turn comes.
STACKED = re.compile(r"(^|\.)segments\.\d+\.")


def spec(name: str, shape: tuple[int, ...], sizes: Mapping[str, int]) -> PartitionSpec:
    """The axes of a parameter of this name and shape on a mesh of these sizes."""
    axes = next(axes for pattern, axes in RULES if re.search(pattern, name))[-len(shape) :] if shape else ()
    axes = (None,) * (len(shape) - len(axes)) + tuple(axes)
    fits = (a if a and sizes[a] > 1 and size % sizes[a] == 0 else None for a, size in zip(axes, shape, strict=True))
    return PartitionSpec(*fits)


def state_shardings(state: Any, mesh: jax.sharding.Mesh) -> Any:
    """A sharding for every array of a (possibly abstract) train state: a parameter's moments follow the parameter,
    whose name is the last dictionary key on their path; everything else is replicated.

    So are moments of another shape than the parameter's: Adafactor's rows and columns of a matrix, [n] and [m] of n m,
    to which the rule's axes do not belong and which are not worth sharding.
    """
    shapes = {name: x.shape for name, x in state["parameters"].items()}

    def of(path: tuple[Any, ...], x: Any) -> NamedSharding:
        name = next((entry.key for entry in reversed(path) if isinstance(entry, jax.tree_util.DictKey)), "")
        follows = shapes.get(name) == x.shape
        return NamedSharding(mesh, spec(name, x.shape, dict(mesh.shape)) if follows else PartitionSpec())

    return jax.tree_util.tree_map_with_path(of, state)
