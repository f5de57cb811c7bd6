"""How far apart two positions are in a network: the shortest way a signal takes from one to the other.

Vaswani et al. 2017, section 4 and Table 1, "maximum path length". What a position of the output reads is taken from the
function itself, as the places where its Jacobian is not 0; the way through many layers, or through the states of a
recurrence, is then a search on the graph of these readings, in steps of one layer or one turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Reads = Bool[np.ndarray, "T S"]


def reads(function: Callable[[Float[Array, "S D"]], Float[Array, "T O"]], x: Float[Array, "S D"]) -> Reads:
    """[t, s]: whether position t of the output depends on position s of the input, at `x` to first order."""
    outputs = jax.eval_shape(function, x)
    direction = jax.random.normal(jax.random.key(0), outputs.shape[1:], outputs.dtype)
    jacobian = jax.jit(jax.jacrev(lambda x: function(x) @ direction))(x)
    return np.asarray(jnp.any(jacobian != 0, axis=-1))


def layers_to_connect(layers: Iterable[Reads]) -> int:
    """How many of these layers, one on the other, it takes until every position reads every position.

    Raises ValueError where they never do: the layers end, or one adds no connection.

    >>> neighbours = abs(np.subtract.outer(np.arange(9), np.arange(9))) <= 2
    >>> layers_to_connect([neighbours] * 9)
    4
    """
    found: Reads | None = None
    for count, layer in enumerate(layers, start=1):
        further = layer if found is None else (layer.astype(np.float32) @ found.astype(np.float32)) > 0
        if further.all():
            return count
        if found is not None and (further == found).all():
            break
        found = further
    raise ValueError("layers_to_connect: some positions never meet")


def longest_distance(edges: Bool[np.ndarray, "V V"], sources: Iterable[int], targets: Iterable[int]) -> int:
    """The largest number of edges on a shortest way from a source to a target, of those that are connected at all.

    `edges` [v, u]: v reads u. Raises ValueError where no target is connected to a source.

    >>> chain = np.eye(4, k=-1, dtype=bool)
    >>> longest_distance(chain, [0], [1, 3])
    3
    """
    targets, longest = list(targets), 0
    for source in sources:
        seen = np.zeros(len(edges), bool)
        seen[source] = True
        frontier, steps = seen, 0
        while frontier.any():
            if frontier[targets].any():
                longest = max(longest, steps)
            frontier = edges[:, frontier].any(axis=1) & ~seen
            seen, steps = seen | frontier, steps + 1
    if not longest:
        raise ValueError("longest_distance: no target is connected to a source")
    return longest


def distance_through_states(
    cell: Callable[[Float[Array, "2 D"]], Float[Array, "1 D"]], x: Float[Array, "2 D"], length: int
) -> int:
    """The longest of the shortest ways from an input to an output of a recurrence over `length` positions.

    `cell` gives the state after reading an input, from the input and the state before, in this order.
    """
    from_input, from_state = (bool(read) for read in reads(cell, x)[0])
    edges = np.zeros((2 * length, 2 * length), bool)  # the inputs, then the states
    for position in range(length):
        edges[length + position, position] = from_input
        if position:
            edges[length + position, length + position - 1] = from_state
    return longest_distance(edges, range(length), range(length, 2 * length))
