"""What a compiled call takes on this machine, by running it: time, and how far it raises the peak of memory."""

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
    """{"milliseconds" (median), "megabytes", "repeats", "compile_seconds"} of `function` under `jax.jit`.

    It is called for that many seconds, `repeats` times at least, after a first call whose memory is what counts: how
    far it raises the peak resident size of the process (on an accelerator: the device's) above what was held before,
    None where nobody counts. Nothing else should run in the process, nor on the machine.
    """
    began = time.perf_counter()
    call = jax.jit(function).lower(*arguments).compile()
    compiled = time.perf_counter() - began
    tiny = jnp.ones((8, 8), jnp.float32)
    jax.block_until_ready(jax.jit(lambda x: jnp.exp(x @ x).sum())(tiny))  # what the runtime itself takes at first
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
    """(bytes held now, or None where nobody counts; function giving the peak since): device, else process."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["bytes_in_use"], lambda: device.memory_stats()["peak_bytes_in_use"]
    reset = memory.reset_peak_resident()  # without it the peak is that of compiling
    return memory.peak_resident_bytes() if reset else None, memory.peak_resident_bytes
