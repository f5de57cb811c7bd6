"""What a mesh does to a train step, found by compiling it for pretended devices: pieces, bytes, collectives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax

from attention_research.accounting.collectives import collectives
from attention_research.errors import RunError
from attention_research.parallel.execution import MeshExecution


def pretend(devices: int) -> None:
    """Gives this process so many CPU devices, whatever the machine has. Raises RunError where JAX has started already
    with fewer."""
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError:  # JAX has started
        pass
    if jax.device_count() < devices:
        raise RunError(f"parallel.mesh: {devices} devices can be pretended in a fresh process only")


def partition(
    step: Callable, start: Callable, batch: Mapping[str, jax.ShapeDtypeStruct], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """"mesh", the train state's "bytes_per_device", and the "collectives" of one step, on CPU devices.

    A reduce-scatter appears as an all-reduce here: XLA's CPU backend keeps that and cuts its result; the GPU's and the
    TPU's make one of the two.
    """
    devices = math.prod(sizes.values())
    run = MeshExecution(step, start, sizes, 0, devices=jax.devices()[:devices])
    placed = {
        name: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=run.batch_sharding(x.ndim)) for name, x in batch.items()
    }
    program = run.step.lower(run.abstract, placed).compile().as_text() or ""
    held = sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(run.abstract))
    found = [{**one._asdict(), "axes": list(one.axes)} for one in collectives(program, sizes)]
    return {"mesh": dict(sizes), "bytes_per_device": held, "collectives": found}
