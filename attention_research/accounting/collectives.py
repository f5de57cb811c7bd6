"""Communication between devices in one step: the collectives of a compiled program, read from XLA's text.

A collective inside a loop counts once per iteration if XLA knows the trip count, else once. A collective inside a
branch counts once. Bytes are the size of its result on one device.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERATION = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (.+?) ([a-z][\w\-]*)\(")
_ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:to_apply|calls|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class Collective(NamedTuple):
    """One kind of collective over some mesh axes: how often a step runs it, and the total bytes of its results."""

    kind: str
    axes: tuple[str, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count
    bytes: int


def collectives(program: str, sizes: Mapping[str, int]) -> list[Collective]:
    """The collectives of a compiled program, largest total bytes first.

    `program` is the text of `jax.stages.Compiled.as_text`, and `sizes` maps each mesh axis to its size. Collectives
    over a single device are left out.
    """
    computations, entry = _computations(program)
    times: dict[str, int] = defaultdict(int)
    _run(computations, entry, 1, times)
    found: dict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(lambda: [0, 0])
    for name, lines in computations.items():
        for line in lines:
            operation = _OPERATION.match(line)
            kind = operation[2].removesuffix("-start") if operation else ""
            if operation and kind in KINDS and times[name] and (axes := _axes(line, sizes)):
                totals = found[kind, axes]
                totals[0] += times[name]
                totals[1] += times[name] * _bytes(operation[1], started=operation[2].endswith("-start"))
    made = [Collective(*key, *totals) for key, totals in found.items()]
    return sorted(made, key=lambda one: (-one.bytes, one.kind, one.axes))


def _computations(program: str) -> tuple[dict[str, list[str]], str]:
    """The lines of each computation by its name, and the name of the entry computation."""
    found: dict[str, list[str]] = {}
    entry, inside = "", None
    for line in program.splitlines():
        heading = _COMPUTATION.match(line)
        if heading:
            inside = found.setdefault(heading[2], [])
            entry = heading[2] if heading[1] else entry
        elif line.startswith("}"):
            inside = None
        elif inside is not None:
            inside.append(line)
    return found, entry


def _run(computations: Mapping[str, list[str]], name: str, times: int, total: dict[str, int]) -> None:
    """Adds to `total` the number of runs of each computation if computation `name` runs `times` times."""
    total[name] += times
    for line in computations.get(name, ()):
        operation = _OPERATION.match(line)
        if operation is None:
            continue
        trips = _TRIPS.search(line) if operation[2] == "while" else None
        branches = _BRANCHES.search(line)
        called = _CALLED.findall(line) + (re.findall(r"%?([\w.\-]+)", branches[1]) if branches else [])
        for inner in called:
            _run(computations, inner, times * int(trips[1] if trips else 1), total)


def _bytes(result: str, *, started: bool) -> int:
    """Bytes of a result type. An asynchronous start returns (operand, result, ...): its largest array counts."""
    sizes = [
        math.prod(int(n) for n in shape.split(",") if n) * _bits(dtype) // 8 for dtype, shape in _ARRAY.findall(result)
    ]
    return max(sizes, default=0) if started else sum(sizes)


def _bits(dtype: str) -> int:
    """Bits of a dtype: the number in its name (bf16, s32). `pred` has none and takes 8."""
    number = re.search(r"\d+", dtype)
    return int(number[0]) if number else 8


def _axes(line: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The mesh axes along which the devices of one group differ."""
    shape = tuple(sizes.values())
    places = [np.array(np.unravel_index(group, shape)) for group in _groups(line, math.prod(shape))]
    differ = np.any([(of_group != of_group[:, :1]).any(axis=1) for of_group in places], axis=0)
    return tuple(axis for axis, differs in zip(sizes, differ, strict=True) if differs)


def _groups(line: str, devices: int) -> list[list[int]]:
    """The groups of devices that communicate. XLA lists groups or pairs, or writes them in one of two short forms.

    Without any, all devices form one group.
    """
    of_mesh = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\((.*?)\))? \{([^}]*)\}", line)
    if of_mesh:
        return _along(*of_mesh.groups())
    tiled = re.search(rf"replica_groups=\[([\d,]+)\]<={_IOTA}", line)
    if tiled:
        return _iota(tiled[2], tiled[3]).reshape(_integers(tiled[1])).tolist()
    listed = re.search(r"(?:replica_groups|source_target_pairs)=\{((?:\{[\d,]*\},?)*)\}", line)
    groups = json.loads("[" + listed[1].replace("{", "[").replace("}", "]") + "]") if listed else []
    return groups or [list(range(devices))]


_IOTA = r"\[([\d,]+)\](?:T\(([\d,]+)\))?"


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def _iota(dimensions: str, order: str | None) -> np.ndarray:
    """The devices of "[2,4]T(1,0)": 0, 1, ... reshaped to these dimensions, transposed in this order, flattened."""
    shape = _integers(dimensions)
    ids = np.arange(math.prod(shape)).reshape(shape)
    return (ids.transpose(_integers(order)) if order else ids).ravel()


def _along(mesh: str, ids: str | None, axes: str) -> list[list[int]]:
    """The groups of "mesh['a'=2,'b'=8], device_ids=([4,4]T(1,0)) {'a', 'b':(2)4}".

    They run along axis a, and along a part of axis b: b is split into [2, 4, 1], and the middle factor, 4, is grouped.
    """
    sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", mesh)}
    iota = re.fullmatch(_IOTA, ids) if ids else None
    if ids is None:
        devices = np.arange(math.prod(sizes.values()))
    else:
        devices = _iota(*iota.groups()) if iota else np.asarray(_integers(ids))
    parts = {name: (int(before or 1), int(size or sizes[name]))
             for name, before, size in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", axes)}  # fmt: skip
    shape: list[int] = []
    grouped: list[int] = []
    for name, whole in sizes.items():
        before, size = parts.get(name, (whole, 1))
        grouped += [len(shape) + 1] if name in parts else []
        shape += [before, size, whole // before // size]
    rest = [axis for axis in range(len(shape)) if axis not in grouped]
    size = math.prod(shape[axis] for axis in grouped)
    return devices.reshape(shape).transpose(rest + grouped).reshape(-1, size).tolist()
