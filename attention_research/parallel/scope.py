"""Access to the current mesh, for the few modules that name one of its axes.

`parallel.execution` sets the mesh around a step. Without a mesh every axis has size 1, and these functions do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import PartitionSpec
from jaxtyping import Array

from attention_research.division import uneven_lengths
from attention_research.errors import ConfigError
from attention_research.kernels.attention.loop_carries import vary_together
from attention_research.parallel.rules import ROWS, SEQUENCE, STACKED, spec

#: The checkpoint name of gathered parameters. The backward pass gathers them again instead of keeping them.
GATHERED = "gathered"


def axis_size(axis: str) -> int:
    """The number of devices along a mesh axis; 1 without a mesh."""
    return dict(jax.sharding.get_abstract_mesh().shape).get(axis, 1)


def constrained(x: Array, *axes: str | tuple[str, ...] | None) -> Array:
    """x with its first dimensions split over these mesh axes, for splits that the partitioner does not find itself."""
    names = [axis for group in axes for axis in ([group] if isinstance(group, str) else group or ())]
    if all(axis_size(axis) == 1 for axis in names):
        return x
    free = (PartitionSpec.UNCONSTRAINED,) * (x.ndim - len(axes))
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes, *free))


def activations(x: Array) -> Array:
    """x [B T ...] with rows and positions split as in the batch. Otherwise the split of a weight may spread to x."""
    return constrained(x, ROWS, SEQUENCE)


def gathered(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """The parameters, gathered along the mesh axis `fsdp`, over which they are stored in shards.

    Zhao et al. 2023 (arXiv 2304.11277). Their gradients are sharded over `fsdp` again.
    """
    sizes = dict(jax.sharding.get_abstract_mesh().shape)
    if sizes.get("fsdp", 1) == 1:
        return dict(parameters)

    def one(name: str, x: Array) -> Array:
        pieces = spec(name, x.shape, sizes)
        whole = PartitionSpec(*(None if axis == "fsdp" else axis for axis in pieces))
        return x if whole == pieces else checkpoint_name(_gathered(whole, pieces, x), GATHERED)

    return {name: one(name, x) for name, x in parameters.items()}


def gathered_but_stacks(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """`gathered`, except for the parameters of stacked layers, which are gathered when their layer runs."""
    return {**parameters, **gathered({name: x for name, x in parameters.items() if not STACKED.search(name)})}


def regathering(body: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the body of a layer so that its backward pass gathers the parameters again.

    Otherwise the gathered parameters of all layers would be in memory at once.
    """
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
    """Runs `function` separately on every device of the mesh axes in `specs`, on the device's shard of the arguments.

    Each spec says how its argument is sharded; `PartitionSpec()` means replicated. Every result is sharded as the first
    argument. The gradient of a replicated argument is summed over devices once, after the function's own loops. The
    partitioner still handles the other mesh axes. If all axes in `specs` have size 1, `function` is returned unchanged.
    Raises ConfigError if the mesh axis `sequence` does not divide an argument, such as the pooled states of a Funnel.
    """
    groups = [group for spec in specs for group in spec if group is not None]
    axes = {axis for group in groups for axis in ([group] if isinstance(group, str) else group)}
    if all(axis_size(axis) == 1 for axis in axes):
        return function
    each = lambda *arguments: function(*vary_together(arguments))
    shares = jax.shard_map(each, in_specs=specs, out_specs=specs[0], axis_names=axes)

    def run(*arguments: Array) -> Any:
        _check_lengths(function, arguments, specs)
        return shares(*arguments)

    return run


def _check_lengths(
    function: Callable[..., Any], arguments: tuple[Array, ...], specs: tuple[PartitionSpec, ...]
) -> None:
    """Lengths of batches are checked before a run. Those of states within a model are known here only."""
    split = zip(arguments, specs, strict=True)
    lengths = {x.shape[list(spec).index(SEQUENCE)] for x, spec in split if SEQUENCE in spec and x is not None}
    of = f"states that {function.__qualname__.partition('.')[0]} splits"
    if lengths and (wrong := uneven_lengths(lengths, axis_size(SEQUENCE), of)):
        raise ConfigError(f"config.parallel.mesh.{SEQUENCE}: {wrong}")
