"""Compiles a train step for a mesh of simulated devices and reports its shards, bytes and collectives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax

from attention_research.accounting.collectives import collectives
from attention_research.errors import RunError
from attention_research.parallel.execution import MeshExecution


def pretend(devices: int) -> None:
    """Simulates this number of CPU devices in the process. Raises RunError if JAX has already started with fewer."""
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError:  # JAX has started
        pass
    if jax.device_count() < devices:
        raise RunError(f"parallel.mesh: cannot simulate {devices} devices, because JAX has started with fewer of them")


def partition(
    step: Callable,
    start: Callable,
    seeds: Any,
    batch: Mapping[str, jax.ShapeDtypeStruct],
    sizes: Mapping[str, int],
) -> dict[str, Any]:
    """The "mesh", the "bytes_per_device" of the train state, and the "collectives" of one step, on CPU devices.

    A reduce-scatter appears as an all-reduce here, because the CPU backend of XLA compiles it as an all-reduce followed
    by a slice. The GPU and TPU backends fuse the two into a reduce-scatter.
    """
    devices = math.prod(sizes.values())
    run = MeshExecution(step, start, sizes, seeds, devices=jax.devices()[:devices])
    placed = {
        name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=run.batch_sharding(x.ndim)) for name, x in batch.items()
    }
    program = run.step.lower(run.abstract, placed).compile().as_text() or ""
    held = sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(run.abstract))
    found = [{**one._asdict(), "axes": list(one.axes)} for one in collectives(program, sizes)]
    return {"mesh": dict(sizes), "bytes_per_device": held, "collectives": found}
