"""Which compiled programs may come from JAX's persistent cache."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.experimental.compilation_cache import compilation_cache


def without_cache_on_cpus(devices: Sequence[jax.Device]) -> None:
    """Turns JAX's persistent compilation cache off for this process if `devices` are several CPU devices.

    A program for several CPU devices that XLA reads from the cache can run its collectives in another order on each
    device. The devices then wait for each other until XLA ends the process ("Termination timeout ... exceeded"; seen
    with jaxlib 0.10.2). A program that this process compiles itself is safe.
    """
    if len(devices) > 1 and devices[0].platform == "cpu":
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()  # JAX decides whether it uses the cache at the first compilation
