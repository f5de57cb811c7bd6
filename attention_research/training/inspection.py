"""Counts parameters, FLOPs and bytes of a config (`inspect`) from the shapes of its module and step.

No array is allocated.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.accounting.flops import count_flops
from attention_research.accounting.memory import peak_bytes
from attention_research.config import Config, build_experiment
from attention_research.layers.structure import abstract
from attention_research.models.architecture import architecture, lines
from attention_research.parallel.execution import check_division
from attention_research.parallel.rules import check_tensor, spec
from attention_research.training.partition import partition, pretend
from attention_research.training.replicas import marked, member_configs, side_by_side, varied_values
from attention_research.training.step import initial_state, make_train_step


def inspect(config: Config) -> dict[str, Any]:
    """Returns the size of a config: parameters (exact), FLOPs of one training step at the longest batch shape, bytes,
    every array with its sharding, and the "architecture" with one line for each branch (`models.architecture`). With
    replicas, the "parameters" are those of each, and everything else is of the program that trains them.

    For a mesh of several devices, which need not exist on this machine, the result also has the "partition"
    (`training.partition`); the mesh axis `data` counts as 1 if it is -1. FLOPs count each multiply-add of a matrix
    product as 2, in the forward and backward pass, including recomputation.

    Raises ConfigError for replicas that cannot be, for a mesh axis without effect, and if a batch does not divide over
    the mesh.

    The number of parameters of a packaged config:

        from attention_research.config import load
        inspect(load("translation/transformer:smoke"))["parameters"]
    """
    members = member_configs(config)
    mesh = config.resolved["parallel"]["mesh"]
    sizes = {axis: max(size, 1) for axis, size in mesh.items() if axis != "kind"}
    devices = math.prod(sizes.values())
    if devices > 1:
        pretend(devices)
    varied = varied_values(members)
    parts = build_experiment(marked(members[0], varied))
    settings, task, data = parts.training(), parts.task(), parts.data()
    batches = list(data.train_shapes(settings.batch_size))
    every = (shape for batch in batches for shape in batch.values())
    check_division(sizes, settings.batch_size, settings.accumulation_steps, every)
    make = lambda rngs: parts.model(rngs=rngs)
    structure, parameters, statistics = abstract(make)
    check_tensor(parameters, sizes)
    width = config.resolved["model"].get("width")
    optimizer, schedule = settings.optimizer(width), settings.schedule(width)
    step = make_train_step(structure, task, optimizer, schedule, accumulation_steps=settings.accumulation_steps)
    start, seeds = initial_state(make, optimizer), 0
    if len(members) > 1:
        (step, start), seeds = side_by_side(step, start, varied), np.zeros(len(members), np.int32)
    state = jax.eval_shape(start, seeds)
    shapes = max(batches, key=lambda s: sum(map(np.prod, s.values())))
    types = {name: jnp.dtype(data.dtypes.get(name, "int32")) for name in shapes}
    batch = {name: jax.ShapeDtypeStruct(shape, types[name]) for name, shape in shapes.items()}
    flops = count_flops(step, state, batch)
    arrays = {name: state["parameters"][name] for name in parameters}
    pieces = {name: spec(name, x.shape, sizes) for name, x in arrays.items()}
    return {
        "parameters": sum(int(np.prod(x.shape)) for x in parameters.values()),
        "replicas": len(members),
        "flops": flops.matmul,
        "flops_elementwise": flops.other,
        "batch": {name: list(shape) for name, shape in shapes.items()},
        "state_bytes": sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(state)),
        "peak_bytes": peak_bytes(step, state, batch),
        "architecture": lines(architecture(structure.merge(parameters, statistics))),
        "arrays": [
            {"name": name, "shape": list(x.shape), "dtype": str(x.dtype), "sharding": str(pieces[name]),
             "bytes_per_device": x.size * x.dtype.itemsize // math.prod(sizes[axis] for axis in pieces[name] if axis)}
            for name, x in arrays.items()
        ],
        "partition": partition(step, start, seeds, batch, sizes) if devices > 1 else None,
    }  # fmt: skip
