"""Online monotonic decoding, Raffel et al. 2017 (arXiv 1704.00784), section 2.2:
the first j >= previous with energy_j > 0.

The released code's "hard" mode computes every energy and then drops most; here an energy that is not needed is not
computed, so that T outputs over S positions read at most S + T energies.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.shapes import check_shapes


def hard_monotonic_decode(
    energy_at: Callable[[Int[Array, ""]], Float[Array, ""]],
    previous: int | Int[Array, ""],
    length: int | Int[Array, ""],
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """(position, energies_read): where the process stops, and how many energies it needed.

    `energy_at` is given a position (a traced int32) and returns its energy, a scalar; it runs once for each energy
    read: positions previous, previous + 1, ... up to the first energy above 0, that one included. `position` is
    `length` where there is none (the context is then 0), and nothing is read when `previous` is `length` already.
    `previous` is 0 before the first output. Under `vmap` the loop runs as long as its slowest example needs; what is
    counted is each example's own. Raises ValueError for a shape that is not a scalar's.
    """
    previous, length = as_int32("previous", previous), as_int32("length", length)
    check_shapes(previous=(previous, ""), length=(length, ""))

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        position, found, _ = state
        return ~found & (position < length)

    def read(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        position, _, count = state
        energy = jnp.asarray(energy_at(position))
        if energy.shape != ():
            raise ValueError(f"energy_at: expected a scalar, got shape {list(energy.shape)}")
        found = energy > 0
        return jnp.where(found, position, position + 1), found, count + 1

    start = (previous, jnp.zeros((), bool), jnp.zeros((), jnp.int32))
    position, _, count = jax.lax.while_loop(unfinished, read, start)
    return position, count
