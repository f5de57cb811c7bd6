"""A row must not be longer than a table of positions: JAX would read the last one again for all that are beyond it."""

from __future__ import annotations

from jaxtyping import Array, Float, Int


def check_length(kind: str, x: Float[Array, "B T D"], positions: Int[Array, "#B T"], rows: int) -> None:
    """Raises ValueError for rows that are longer than the table, of several that share their positions [1 T]; a packed
    row may be longer, since its positions begin anew with every example."""
    if positions.shape[0] == 1 < x.shape[0] and x.shape[1] > rows:
        raise ValueError(f"{kind} positions: {x.shape[1]} tokens, but the table has {rows} rows; set max_length")
