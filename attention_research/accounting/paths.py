"""The path length between two positions of a network: the smallest number of steps from an input to an output.

Vaswani et al. 2017, section 4 and Table 1, "maximum path length". The positions that an output reads are the nonzero
entries of the function's Jacobian. They are the edges of a graph, and the path length is a shortest path in this graph.
One step is one layer, or one iteration of a recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Reads = Bool[np.ndarray, "T S"]


def reads(function: Callable[[Float[Array, "S D"]], Float[Array, "T O"]], x: Float[Array, "S D"]) -> Reads:
    """Entry [t, s]: whether the derivative of output position t with respect to input position s is nonzero at `x`."""
    outputs = jax.eval_shape(function, x)
    direction = jax.random.normal(jax.random.key(0), outputs.shape[1:], outputs.dtype)
    jacobian = jax.jit(jax.jacrev(lambda x: function(x) @ direction))(x)
    return np.asarray(jnp.any(jacobian != 0, axis=-1))


def layers_to_connect(layers: Iterable[Reads]) -> int:
    """The number of these layers, stacked in this order, after which every position reads every position.

    Raises ValueError if this never happens: the layers run out, or a layer adds no connection.

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
    """The longest of the shortest paths from a source to a target, in edges. Unconnected pairs are skipped. A source
    that is also a target has the distance 0.

    `edges` [v, u] is True where v reads u. Raises ValueError if no target is connected to a source.

    >>> chain = np.eye(4, k=-1, dtype=bool)
    >>> longest_distance(chain, [0], [1, 3])
    3
    """
    targets, longest = list(targets), -1
    for source in sources:
        seen = np.zeros(len(edges), bool)
        seen[source] = True
        frontier, steps = seen, 0
        while frontier.any():
            if frontier[targets].any():
                longest = max(longest, steps)
            frontier = edges[:, frontier].any(axis=1) & ~seen
            seen, steps = seen | frontier, steps + 1
    if longest < 0:
        raise ValueError("longest_distance: no target is connected to a source")
    return longest


def distance_through_states(
    cell: Callable[[Float[Array, "2 D"]], Float[Array, "1 D"]], x: Float[Array, "2 D"], length: int
) -> int:
    """The longest of the shortest paths from an input to a state of a recurrence over `length` positions.

    `cell` takes [input, previous state], stacked as two rows, and returns the new state.
    """
    from_input, from_state = (bool(read) for read in reads(cell, x)[0])
    edges = np.zeros((2 * length, 2 * length), bool)  # the inputs, then the states
    for position in range(length):
        edges[length + position, position] = from_input
        if position:
            edges[length + position, length + position - 1] = from_state
    return longest_distance(edges, range(length), range(length, 2 * length))
