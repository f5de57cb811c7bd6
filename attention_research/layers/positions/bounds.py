"""A row must not be longer than a table of positions: JAX would read the last one again for all that are beyond it."""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from attention_research.kernels.symbolic import may_exceed, symbolic


def check_length(kind: str, x: Float[Array, "B T D"], positions: Int[Array, "#B T"], rows: int) -> None:
    """Raises ValueError for rows that are longer than the table, of several that share their positions [1 T]; a packed
    row may be longer, since its positions begin anew with every example. A symbolic length needs that constraint."""
    (batch, length), shared = x.shape[:2], positions.shape[0] == 1
    if shared and symbolic(length) and may_exceed(length, rows):
        raise ValueError(
            f"{kind} positions: axis T: expected a symbolic size of at most the table's {rows} rows, got {length}; "
            f"give jax.export.symbolic_shape the constraint '{length} <= {rows}'"
        )
    if shared and not symbolic(batch, length) and batch > 1 and length > rows:
        raise ValueError(f"{kind} positions: {x.shape[1]} tokens, but the table has {rows} rows; set max_length")
