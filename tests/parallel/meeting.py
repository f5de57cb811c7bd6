"""Two hosts, of which the second compiles for long: ``meeting ADDRESS HOST SECONDS`` prints the sum over both."""

from __future__ import annotations

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from attention_research.parallel import hosts


def summed(seconds: float) -> list[float]:
    """A sum over the devices of both hosts, twice: at their first communication, and after it."""
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    rows = jax.make_array_from_callback(
        (jax.device_count(),), NamedSharding(mesh, PartitionSpec("data")), lambda index: np.arange(9.0)[index]
    )

    def total(x: jax.Array) -> jax.Array:
        time.sleep(seconds * jax.process_index())
        return jnp.sum(x)

    run = hosts.together(jax.jit(total, out_shardings=NamedSharding(mesh, PartitionSpec())))
    return [float(run(rows)), float(run(rows))]


if __name__ == "__main__":
    address, host, seconds = map(json.loads, sys.argv[1:])
    hosts.join(address, 2, host)
    hosts.wait("both are here")
    print(json.dumps(summed(seconds)))
