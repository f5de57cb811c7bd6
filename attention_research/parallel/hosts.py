"""Several hosts as one: JAX's distributed runtime, and what they must agree on.

Every host runs the same program on the same config; the first (process 0) alone writes into the workdir, but for the
checkpoints' arrays, of which each host writes its own pieces. With one host nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
import numpy as np

from attention_research.errors import RunError
from attention_research.parallel.lifeline import GONE, lifeline

#: Seconds without a sign of life after which a host counts as lost, and for which a start waits for all of them.
HEARTBEAT, START = 20, 300
#: The name under which the first host was found.
_address: str | None = None
#: What XLA says when another host's end of a connection is gone.
_LOST = ("connection", "Connection", "heartbeat", "Socket closed", "UNAVAILABLE", "DEADLINE_EXCEEDED", "Gloo", "gloo")


def join(address: str | None = None, hosts: int | None = None, host: int | None = None) -> None:
    """Makes this process host number `host` of `hosts`, which meet at `address` ("name:port" of host 0); without any of
    these, as the cluster's environment says (Slurm, Open MPI, TPU pods, Kubernetes). Before anything else uses JAX.

    Raises RunError where they do not meet.
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
    """While the block runs the loss of a host ends the others, each with one line (`parallel.lifeline`)."""
    return lifeline(_address, told)


def count() -> int:
    """The number of hosts."""
    return jax.process_count()


def is_first() -> bool:
    """Whether this host writes into the workdir."""
    return jax.process_index() == 0


def agreed(value: int) -> int:
    """The first host's value, on all of them."""
    if count() == 1:
        return value
    from jax.experimental import multihost_utils

    return int(multihost_utils.broadcast_one_to_all(np.int32(value)))


def any_host(wish: bool) -> bool:
    """Whether a host wishes it."""
    if count() == 1:
        return wish
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.int32(wish))))


def wait(name: str) -> None:
    """Until all hosts are here."""
    if count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def together(function: Any) -> Any:
    """A jitted function which no host begins before all have compiled it, for each shape of its arguments.

    Where its collectives first meet, those of CPUs (Gloo) take a host that has not come within 30 s for a lost one: it
    may be compiling yet, where the other found the program in its cache.
    """
    if count() == 1:
        return function
    compiled = set()

    def run(*arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        shapes = (tree, *map(jax.typeof, leaves))
        if shapes not in compiled:
            function.lower(*arguments).compile()  # JAX keeps it for the call
            wait("a program is compiled")
            compiled.add(shapes)
        return function(*arguments)

    return run


@contextmanager
def lost_told() -> Iterator[None]:
    """Turns the end of another host into a RunError of one line."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if count() == 1 or not any(word in str(error) for word in _LOST):
            raise
        raise RunError(GONE) from None
