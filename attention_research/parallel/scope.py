"""The mesh in whose scope a function is traced: for the few modules that must name one of its axes.

`parallel.execution` sets it around a step. Without one every axis has size 1, and nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec
from jaxtyping import Array

from attention_research.kernels.attention.varying import vary_together
from attention_research.parallel.rules import ROWS, SEQUENCE, STACKED, spec

#: The name of gathered parameters: what a gradient gathers anew rather than keeps.
GATHERED = "gathered"


def axis_size(axis: str) -> int:
    """The number of devices along a mesh axis."""
    return dict(jax.sharding.get_abstract_mesh().shape).get(axis, 1)


def constrained(x: Array, *axes: str | tuple[str, ...] | None) -> Array:
    """x with its first dimensions split over these mesh axes: where the partitioner would not find the split itself."""
    names = [axis for group in axes for axis in ([group] if isinstance(group, str) else group or ())]
    if all(axis_size(axis) == 1 for axis in names):
        return x
    free = (PartitionSpec.UNCONSTRAINED,) * (x.ndim - len(axes))
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes, *free))


def activations(x: Array) -> Array:
    """x [B T ...], its rows and positions split as the batch's: else a weight's split may spread to it."""
    return constrained(x, ROWS, SEQUENCE)


def gathered(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """The parameters as they are used: whole along `fsdp`, over which they are kept in pieces (Zhao et al. 2023,
    arXiv 2304.11277). Their gradients are in pieces again."""
    sizes = dict(jax.sharding.get_abstract_mesh().shape)
    if sizes.get("fsdp", 1) == 1:
        return dict(parameters)

    def one(name: str, x: Array) -> Array:
        pieces = spec(name, x.shape, sizes)
        whole = PartitionSpec(*(None if axis == "fsdp" else axis for axis in pieces))
        return x if whole == pieces else checkpoint_name(_gathered(whole, pieces, x), GATHERED)

    return {name: one(name, x) for name, x in parameters.items()}


def gathered_but_stacks(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """`gathered`, but for the layers of stacks: each of those is gathered when its turn comes."""
    return {**parameters, **gathered({name: x for name, x in parameters.items() if not STACKED.search(name)})}


def regathering(body: Callable[..., Any]) -> Callable[..., Any]:
    """A layer's body whose gradient gathers the parameters once more: kept, all layers' would be whole at once."""
    if axis_size("fsdp") == 1:
        return body
    return jax.checkpoint(body, policy=jax.checkpoint_policies.save_anything_except_these_names(GATHERED))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _gathered(whole: PartitionSpec, pieces: PartitionSpec, x: Array) -> Array:
    return jax.lax.with_sharding_constraint(x, whole)


_gathered.defvjp(
    lambda whole, pieces, x: (_gathered(whole, pieces, x), None),
    lambda whole, pieces, _, gradient: (jax.lax.with_sharding_constraint(gradient, pieces),),
)


def over_axes(function: Callable[..., Any], *specs: PartitionSpec) -> Callable[..., Any]:
    """`function` run by every device of the axes that `specs` name on its share of the arguments, so that no device
    sees another's.

    Each spec says how its argument is cut (`PartitionSpec()`: it is whole everywhere); every result is cut as the first
    argument. What is whole has its gradient summed over devices once, after the function's own loops. The other axes of
    the mesh stay the partitioner's. Axes of one device change nothing.
    """
    groups = [group for spec in specs for group in spec if group is not None]
    axes = {axis for group in groups for axis in ([group] if isinstance(group, str) else group)}
    if all(axis_size(axis) == 1 for axis in axes):
        return function
    each = lambda *arguments: function(*vary_together(arguments))
    return jax.shard_map(each, in_specs=specs, out_specs=specs[0], axis_names=axes)
