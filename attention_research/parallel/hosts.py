"""Training on several hosts: starts JAX's distributed runtime and synchronises the hosts.

Every host runs the same program with the same config. Only the first host (process 0) writes to the workdir, except
for the arrays of checkpoints: each host writes its own shards. With one host these functions do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
import numpy as np

from attention_research.errors import RunError
from attention_research.parallel.lifeline import GONE, lifeline

#: Timeouts in seconds: a host without a heartbeat counts as lost; `join` waits this long for all hosts.
HEARTBEAT, START = 20, 300
#: The name of the first host, from the coordinator's address.
_address: str | None = None
#: Words in XLA's error messages when the connection to another host is lost.
_LOST = ("connection", "Connection", "heartbeat", "Socket closed", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Gloo", "gloo")


def join(address: str | None = None, hosts: int | None = None, host: int | None = None) -> None:
    """Makes this process host number `host` of `hosts`. Call it before anything else uses JAX.

    `address` is the "name:port" of host 0. Arguments that are None are read from the cluster's environment (Slurm, Open
    MPI, TPU pods, Kubernetes). Raises RunError if the hosts do not all connect.
    """
    global _address
    _address = address and address.rpartition(":")[0]
    try:
        jax.distributed.initialize(
            address, hosts, host, initialization_timeout=START, heartbeat_timeout_seconds=HEARTBEAT
        )
    except (RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise RunError(f"the hosts do not meet ({said}); give --coordinator_address=NAME:PORT of host 0") from None


def watched(told: Callable[[str], None]) -> AbstractContextManager[None]:
    """A context in which the loss of a host ends the other hosts, each with a one-line error (`parallel.lifeline`)."""
    return lifeline(_address, told)


def count() -> int:
    """The number of hosts."""
    return jax.process_count()


def is_first() -> bool:
    """Whether this is the first host, which writes to the workdir."""
    return jax.process_index() == 0


def agreed(value: int) -> int:
    """The first host's value, on all hosts."""
    if count() == 1:
        return value
    from jax.experimental import multihost_utils

    return int(multihost_utils.broadcast_one_to_all(np.int32(value)))


def any_host(wish: bool) -> bool:
    """Whether `wish` is true on any host."""
    if count() == 1:
        return wish
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.int32(wish))))


def wait(name: str) -> None:
    """Waits until all hosts have called `wait` with this name."""
    if count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def together(function: Any) -> Any:
    """Wraps a jitted function so that no host runs it before all hosts have compiled it, for each shape of arguments.

    The first collective on CPUs (Gloo) fails if another host does not join within 30 s. That host may still be
    compiling, if this one found the program in its cache.
    """
    if count() == 1:
        return function
    compiled = set()

    def run(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        shapes = (tree, *map(jax.typeof, leaves))
        if shapes not in compiled:
            function.lower(*arguments).compile()  # JAX caches the program for the call below
            wait("a program is compiled")
            compiled.add(shapes)
        return function(*arguments)

    return run


@contextmanager
def lost_told() -> Iterator[None]:
    """Turns XLA's error about a lost host into a RunError of one line."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if count() == 1 or not any(word in str(error) for word in _LOST):
            raise
        raise RunError(GONE) from None
