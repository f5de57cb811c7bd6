"""Runs the train step on devices, as one program on a mesh (`jit`) or as one copy on each device (`pmap`).

Both classes create the first state, place batches on the devices and run the step, with the same interface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from attention_research.division import uneven_lengths, uneven_rows, uneven_under_pmap
from attention_research.errors import ConfigError
from attention_research.parallel import hosts
from attention_research.parallel.compilation import without_cache_on_cpus
from attention_research.parallel.rules import ROWS, SEQUENCE, check_tensor, state_shardings

AXIS = "devices"


def make_mesh(sizes: Mapping[str, int], among: Sequence[jax.Device] | None = None) -> jax.sharding.Mesh:
    """A mesh with these axis sizes over all devices, or over the devices `among`. A size of -1 takes the rest.

    Raises ConfigError if the sizes do not fit the number of devices.
    """
    devices = jax.device_count() if among is None else len(among)
    known = math.prod(size for size in sizes.values() if size != -1)
    filled = {axis: devices // known if size == -1 else size for axis, size in sizes.items()}
    if min(filled.values()) < 1 or math.prod(filled.values()) != devices:
        raise ConfigError(f"config.parallel.mesh: {_misfit(sizes, known, devices)}")
    axis_types = (AxisType.Auto,) * len(filled)
    return jax.make_mesh(tuple(filled.values()), tuple(filled), axis_types=axis_types, devices=among)


def _misfit(sizes: Mapping[str, int], known: int, devices: int) -> str:
    """Why axes of these sizes, whose known ones multiply to `known`, do not fit the devices."""
    asked = " x ".join(f"{axis} {size}" for axis, size in sizes.items() if size != 1 or axis == "data")
    said = f"{asked} does not fit {devices} device(s)"
    if -1 in sizes.values():
        return f"{said}: {known} does not divide {devices}"
    rest = "" if devices % (known // sizes["data"]) else "; set parallel.mesh.data=-1 for the rest"
    return f"{said}: the product is {known}{rest}"


def check_division(sizes: Mapping[str, int], batch_size: int, parts: int, shapes: Iterable[tuple[int, ...]]) -> None:
    """Raises ConfigError if a mesh of these axis sizes cannot split a part of the batch, or a sequence, equally."""
    if wrong := uneven_rows(batch_size, {axis: sizes[axis] for axis in ROWS}, parts):
        raise ConfigError(f"config.training.batch_size: {wrong}")
    if wrong := uneven_lengths((shape[1] for shape in shapes if len(shape) > 1), sizes[SEQUENCE]):
        raise ConfigError(f"config.parallel.mesh.sequence: {wrong}")


class MeshExecution:
    """`jax.jit` on a mesh, with shardings from `parallel.rules`. The step donates the state.

    `start(seeds)` creates the state, from one seed or from an array of seeds (one for each replica).
    """

    def __init__(
        self,
        step: Callable,
        start: Callable,
        sizes: Mapping[str, int],
        seeds: np.ndarray | int,
        *,
        devices: Sequence[jax.Device] | None = None,
    ):
        self.mesh = make_mesh(sizes, devices)
        without_cache_on_cpus(self.mesh.devices.ravel().tolist())
        self.abstract = jax.eval_shape(start, seeds)
        check_tensor(self.abstract["parameters"], self.mesh.shape)
        shardings = state_shardings(self.abstract, self.mesh)
        self.abstract = jax.tree.map(
            lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), self.abstract, shardings
        )
        self.start = lambda: self.made(start, seeds)
        self.shardings = shardings

        def in_scope(state: Any, batch: Any) -> Any:
            with jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh):
                return step(state, batch)

        everywhere = NamedSharding(self.mesh, PartitionSpec())
        self.step = hosts.together(
            jax.jit(in_scope, in_shardings=(shardings, None), out_shardings=(shardings, everywhere), donate_argnums=0)
        )

    def made(self, function: Callable, *arguments: Any) -> Any:
        """The state that a pure function returns, in the form that `step` takes."""
        return hosts.together(jax.jit(function, out_shardings=self.shardings))(*arguments)

    def jitted(self, function: Callable) -> Callable:
        """The function under `jax.jit`; each host holds all of what it returns."""
        if hosts.count() == 1:
            return jax.jit(function)
        return hosts.together(jax.jit(function, out_shardings=NamedSharding(self.mesh, PartitionSpec())))

    def check(self, batch_size: int, parts: int, shapes: Iterable[tuple[int, ...]]) -> None:
        """Raises ConfigError if the mesh cannot split a part of the batch, or a sequence, equally."""
        check_division(self.mesh.shape, batch_size, parts, shapes)

    @cached_property
    def part(self) -> tuple[int, int]:
        """(index, count): this host holds part `index` of `count` equal consecutive parts of the rows of a batch."""
        shards = math.prod(self.mesh.shape[axis] for axis in ROWS)
        rows: Any = self.batch_sharding(1).addressable_devices_indices_map((shards,)).values()
        bounds = [index.indices(shards)[:2] for (index,) in rows]
        low, high = min(start for start, _ in bounds), max(stop for _, stop in bounds)
        held = high - low
        return (low // held, shards // held) if shards % held == 0 and low % held == 0 else (0, 1)

    def place(self, batch: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Puts this host's part of a batch on its devices."""
        shardings = {name: self.batch_sharding(np.ndim(x)) for name, x in batch.items()}
        if jax.process_count() == 1:
            return jax.device_put(dict(batch), shardings)
        return {name: self._global(x, shardings[name]) for name, x in batch.items()}

    def _global(self, x: np.ndarray, sharding: NamedSharding) -> jax.Array:
        number, parts = self.part
        first, shape = number * len(x), (len(x) * parts, *x.shape[1:])

        def piece(index: Any) -> np.ndarray:
            start, stop, _ = index[0].indices(shape[0])
            return x[(slice(start - first, stop - first), *index[1:])]

        return jax.make_array_from_callback(shape, sharding, piece)

    def batch_sharding(self, axes: int) -> NamedSharding:
        """The sharding of a batch array [B T ...] with this number of axes."""
        return NamedSharding(self.mesh, PartitionSpec(*(ROWS, SEQUENCE)[:axes]))

    def plain(self, state: Any) -> Any:
        """The state in the form that checkpoints store."""
        return state

    def restored(self, state: Any) -> Any:
        """A checkpointed state in the form that `step` takes."""
        return state

    def describe(self) -> dict[str, Any]:
        """The entry for environment.json."""
        return {"strategy": "jit", "mesh": dict(self.mesh.shape), "hosts": jax.process_count()}


class PmapExecution:
    """Data parallelism with `jax.pmap`: every device holds a copy of the state, and gradients are summed over them."""

    def __init__(self, step: Callable, start: Callable, seed: int):
        without_cache_on_cpus(jax.devices())
        self.devices = jax.local_device_count()
        self.abstract = jax.eval_shape(start, seed)
        self.start = lambda: self.made(start, seed)
        # The metrics are equal on all devices: the first device's are returned.
        self.step = jax.pmap(step, axis_name=AXIS, out_axes=(0, None), donate_argnums=0)
        if hosts.count() > 1:  # the devices communicate once before the step is compiled (see `hosts.together`)
            hosts.wait("pmap")
            jax.pmap(lambda x: jax.lax.psum(x, AXIS), axis_name=AXIS)(np.ones(self.devices))
        mesh = jax.make_mesh((self.devices,), (AXIS,), axis_types=(AxisType.Auto,), devices=jax.local_devices())
        self.batch_sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def made(self, function: Callable, *arguments: Any) -> Any:
        """The state that a pure function returns, in the form that `step` takes."""
        return self.restored(jax.jit(function)(*arguments))

    def jitted(self, function: Callable) -> Callable:
        """The function under `jax.jit`; each host computes it alone."""
        return jax.jit(function)

    def check(self, batch_size: int, parts: int, shapes: Iterable[tuple[int, ...]]) -> None:
        """Raises ConfigError if the devices cannot share a part of the batch equally."""
        del shapes  # pmap splits only rows
        if wrong := uneven_under_pmap(batch_size, self.devices * jax.process_count(), parts):
            raise ConfigError(f"config.training.batch_size: {wrong}")

    @property
    def part(self) -> tuple[int, int]:
        """(index, count): this host holds part `index` of `count` equal consecutive parts of the rows of a batch."""
        return jax.process_index(), jax.process_count()

    def place(self, batch: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Puts a batch on the devices: [B ...] -> [devices, B / devices ...]."""
        shards = {name: np.reshape(x, (self.devices, -1, *x.shape[1:])) for name, x in batch.items()}
        return jax.device_put(shards, self.batch_sharding)

    def plain(self, state: Any) -> Any:
        """One copy of the state, as checkpoints store it."""
        one = jax.tree.map(lambda x: x.addressable_data(0)[0], state)
        return one if jax.process_count() == 1 else jax.device_get(one)

    def restored(self, state: Any) -> Any:
        """A copy of a checkpointed state on every device."""
        return jax.tree.map(lambda x: jnp.stack([x] * self.devices), state)

    def describe(self) -> dict[str, Any]:
        """The entry for environment.json."""
        count = hosts.count()
        return {"strategy": "pmap", "mesh": {"data": self.devices * count}, "hosts": count}
