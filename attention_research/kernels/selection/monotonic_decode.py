"""Online monotonic decoding, Raffel et al. 2017 (arXiv 1704.00784), section 2.2:
the first j >= previous with energy_j > 0.

The "hard" mode of the released code computes all energies and discards most. Here only the necessary energies are
computed: T outputs over S positions need at most S + T energies.
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
    """Returns (position, energies_read): the stopping position, and the number of energies that were computed.

    `energy_at` takes a position (a traced int32) and returns its energy, a scalar. It is called for positions previous,
    previous + 1, ... up to and including the first one with an energy above 0. If there is none, `position` is `length`
    (and the context is 0). If `previous` is already `length`, no energy is computed. `previous` is 0 before the first
    output. Under `vmap`, the loop runs until the slowest example is done; `energies_read` counts for each example
    separately. Raises ValueError if an energy is not a scalar.

    >>> energies = jnp.array([-1.0, 2.0, -3.0, 4.0])
    >>> position, energies_read = hard_monotonic_decode(lambda j: energies[j], 2, 4)  # from position 2 on
    >>> position.item(), energies_read.item()
    (3, 2)
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
