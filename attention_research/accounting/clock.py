"""Measures a compiled call on this machine: its time, and by how much it raises the peak memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from attention_research.accounting import memory

LEAST_REPEATS = 5


def measure_call(function: Callable[..., Any], *arguments: Any, seconds: float, repeats: int = LEAST_REPEATS) -> dict:
    """Time and memory of `function` under `jax.jit`, as {"milliseconds", "megabytes", "repeats", "compile_seconds"}.

    A first call measures the memory: by how much it raises the peak resident size of the process, or the peak memory of
    the device on an accelerator. "megabytes" is None if the system reports no peak. Then the call is repeated for
    `seconds` seconds, and at least `repeats` times; "milliseconds" is the median. Nothing else should run in the
    process or on the machine.
    """
    began = time.perf_counter()
    call = jax.jit(function).lower(*arguments).compile()
    compiled = time.perf_counter() - began
    tiny = jnp.ones((8, 8), jnp.float32)
    jax.block_until_ready(jax.jit(lambda x: jnp.exp(x @ x).sum())(tiny))  # the runtime's own first allocations
    before, peak = _memory()
    jax.block_until_ready(call(*arguments))
    raised = peak() - before if before is not None else None
    times: list[float] = []
    while len(times) < repeats or sum(times) < seconds:
        began = time.perf_counter()
        jax.block_until_ready(call(*arguments))
        times.append(time.perf_counter() - began)
    return {
        "milliseconds": 1e3 * statistics.median(times),
        "megabytes": None if raised is None else raised / 1e6,
        "repeats": len(times),
        "compile_seconds": compiled,
    }


def _memory() -> tuple[int | None, Callable[[], int]]:
    """(bytes in use, function that returns the peak) of the device, or of the process if the device reports none.

    The bytes in use are None if the peak of the process cannot be reset.
    """
    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["bytes_in_use"], lambda: device.memory_stats()["peak_bytes_in_use"]
    reset = memory.reset_peak_resident()  # otherwise the peak is the compiler's
    return memory.peak_resident_bytes() if reset else None, memory.peak_resident_bytes
