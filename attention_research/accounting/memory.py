"""Memory of arrays (from their shapes), of programs (from their jaxprs) and of this process (from the kernel).

The estimate for a program ignores fusion: every intermediate result counts in full until its last use. XLA fuses
elementwise chains and reuses buffers, so a program may need less. XLA also adds scratch space, such as transposed
copies and padding, which the estimate does not see. Use the estimate to compare formulations at shapes that do not fit
this machine. To measure the memory that a program really took, read `peak_resident_bytes` in a fresh process.
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

# Primitives whose result shares the input's buffer.
_SAME_BUFFER = frozenset("reshape squeeze expand_dims copy_p stop_gradient name sharding_constraint".split())
# Calls that are inlined: their intermediates are freed as if the body stood in the caller.
_INLINED = frozenset("jit pjit closed_call core_call remat2 checkpoint custom_jvp_call custom_vjp_call".split())


def size_in_bytes(tree: Any) -> int:
    """The total bytes of all arrays (or `jax.ShapeDtypeStruct`) in a pytree.

    >>> size_in_bytes({"kernel": jnp.ones((3, 4)), "bias": jnp.ones(4)})  # 16 numbers of 4 bytes
    64
    """
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def peak_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Peak memory of a call before fusion: arguments, captured constants, and `intermediate_bytes`.

    Arguments count from start to end, since none is donated. Outputs count from the operation that computes them.

    >>> peak_bytes(lambda x: (x + 1) * 2, jnp.ones(100))
    1200
    """
    program = programs.trace(function, *arguments)
    return size_in_bytes(arguments) + sum(map(_bytes, program.consts)) + _peak(program.jaxpr)


def intermediate_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """The largest total size of intermediate results and outputs that are live at once.

    An operation needs its inputs and its outputs at the same time. A loop needs its full outputs and the peak of its
    body; a scan also needs one slice of each input that it scans over. `cond` needs the peak of its largest branch.
    `shard_map` needs the peak of its body on all devices together.

    >>> intermediate_bytes(lambda x: (x + 1) * 2, jnp.ones(100))
    800
    """
    return _peak(programs.trace(function, *arguments).jaxpr)


def _bytes(value: Any) -> int:
    dtype = getattr(value, "dtype", None)
    return math.prod(value.shape) * dtype.itemsize if dtype is not None else 0


class _Program:
    """A jaxpr with its calls inlined, as a list of (equation, buffers read, buffers written)."""

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
    """The memory that an operation adds while it runs: its outputs, and the peak inside its loop or call."""
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
    """The peak resident memory of this process, since its start or since `reset_peak_resident`."""
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak_resident() -> bool:
    """Resets the peak to the current resident memory (Linux). Returns False where the system does not permit it.

    First returns the free memory that malloc holds to the system.
    """
    allocator.return_pages()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    peak, now = _status("VmHWM"), _status("VmRSS")
    return peak is not None and now is not None and peak <= now * 1.05 + 2**20


def _status(field: str) -> int | None:
    """A size in bytes from /proc/self/status, or None if it is not there."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)
