"""Bytes: of arrays by their shapes, of a program by a walk over its jaxpr, of this process by what the kernel says.

The walk is an estimate from the program *before* fusion: every intermediate result counts as if it were written to
memory, whole, until its last use. XLA fuses elementwise chains and reuses buffers, so that a program may need less; it
also adds scratch space of its own (transposed copies, padding), which no walk sees. It compares formulations on
shapes that no machine here could hold; what a program took is `peak_resident_bytes` in a fresh process.
"""

import math
import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
from jax.extend.core import DropVar, Jaxpr, Literal

from attention_research import allocator
from attention_research.accounting import programs

# The result is the input's buffer under another shape.
_SAME_BUFFER = frozenset("reshape squeeze expand_dims copy_p stop_gradient name sharding_constraint".split())
# Programs that are simply run in place; their intermediates die inside as if written out in the caller.
_INLINED = frozenset("jit pjit closed_call core_call remat2 checkpoint custom_jvp_call custom_vjp_call".split())


def size_in_bytes(tree: Any) -> int:
    """Bytes of all arrays (or `jax.ShapeDtypeStruct`) of a tree."""
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def peak_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Arguments, captured constants and the largest set of intermediate results that live at once; before fusion.

    Arguments count throughout (nothing is donated), outputs from where they are made to the end.
    """
    program = programs.trace(function, *arguments)
    return size_in_bytes(arguments) + sum(map(_bytes, program.consts)) + _peak(program.jaxpr)


def intermediate_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """The largest set of intermediate results, outputs included, that live at once: `peak_bytes` less its arguments.

    An operation needs its inputs and its outputs at the same time. A loop needs its outputs (the stacked ones of a scan
    whole), one slice of what it scans over, and its body's own peak; a branch the larger one's; `shard_map` the body's
    on all devices together.
    """
    return _peak(programs.trace(function, *arguments).jaxpr)


def _bytes(value: Any) -> int:
    dtype = getattr(value, "dtype", None)
    return math.prod(value.shape) * dtype.itemsize if dtype is not None else 0


class _Program:
    """A jaxpr with calls written out and names resolved to buffers: [(equation, buffers read, buffers written)]."""

    def __init__(self, jaxpr: Jaxpr):
        self.operations: list[tuple[Any, list[int], list[int]]] = []
        self.sizes: list[int] = []
        given = {variable: self._buffer(0) for variable in (*jaxpr.invars, *jaxpr.constvars)}
        self.outputs = self._write_out(jaxpr, given)

    def _buffer(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def _write_out(self, jaxpr: Jaxpr, buffers: dict[Any, int]) -> list[int]:
        def read(variables: Iterable[Any]) -> list[int]:
            return [self._buffer(0) if isinstance(v, Literal) else buffers[v] for v in variables]

        for equation in jaxpr.eqns:
            name, taken = equation.primitive.name, read(equation.invars)
            inner = programs.inner_programs(equation) if name in _INLINED else []
            if len(inner) == 1 and len(inner[0].invars) == len(taken):
                body = programs.without_dead_code(inner[0])
                held = {v: self._buffer(0) for v in body.constvars}
                made = self._write_out(body, held | dict(zip(body.invars, taken, strict=True)))
            elif name in _SAME_BUFFER or (name == "broadcast_in_dim" and _adds_axes_only(equation)):
                made = [taken[0]]
            else:
                made = [self._buffer(0 if isinstance(v, DropVar) else _bytes(v.aval)) for v in equation.outvars]
                self.operations.append((equation, taken, made))
            buffers.update(zip(equation.outvars, made, strict=True))
        return read(jaxpr.outvars)


def _adds_axes_only(equation: Any) -> bool:
    return _bytes(equation.invars[0].aval) == _bytes(equation.outvars[0].aval)


def _peak(jaxpr: Jaxpr) -> int:
    program = _Program(jaxpr)
    last_use = {buffer: n for n, (_, taken, made) in enumerate(program.operations) for buffer in (*taken, *made)}
    for buffer in program.outputs:
        last_use[buffer] = len(program.operations)
    live = peak = 0
    for n, (equation, taken, made) in enumerate(program.operations):
        outputs = sum(program.sizes[buffer] for buffer in made)
        peak = max(peak, live + _while_running(equation, outputs))
        live += outputs
        live -= sum(program.sizes[buffer] for buffer in {*taken, *made} if last_use[buffer] == n)
    return peak


def _while_running(equation: Any, outputs: int) -> int:
    """What an operation needs beyond what lives already: its outputs, and inside a loop or a call more."""
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        body = programs.opened(params["jaxpr"])
        slices = body.invars[sum(programs.scan_sizes(params)) :]
        return outputs + sum(_bytes(v.aval) for v in slices) + _peak(body)
    inner = [_peak(programs.without_dead_code(program)) for program in programs.inner_programs(equation)]
    if name == "while":
        return outputs + max(inner)
    if name == "shard_map":
        return max(outputs, inner[0] * programs.shards(equation))
    return max(outputs, *inner, 0)


def peak_resident_bytes() -> int:
    """The most memory that this process has ever had resident (or since `reset_peak_resident`)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak_resident() -> bool:
    """Starts the peak anew from what is held now (Linux); False where the system does not permit it.

    Memory that malloc keeps although it is free is given back first.
    """
    allocator.return_pages()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    peak, now = _status("VmHWM"), _status("VmRSS")
    return peak is not None and now is not None and peak <= now * 1.05 + 2**20


def _status(field: str) -> int | None:
    """A size from /proc/self/status, in bytes; None where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)
