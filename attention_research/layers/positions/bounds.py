"""Checks that rows are not longer than a table of positions. JAX would silently use the last position for the rest."""

from __future__ import annotations

from jaxtyping import Array, Float, Int

from attention_research.kernels.symbolic import may_exceed, symbolic


def check_length(kind: str, x: Float[Array, "B T D"], positions: Int[Array, "#B T"], rows: int) -> None:
    """Raises ValueError if rows that share their positions [1 T] are longer than the table.

    A packed row may be longer, because its positions restart with every example. A symbolic length must have a
    constraint that bounds it.
    """
    (batch, length), shared = x.shape[:2], positions.shape[0] == 1
    if shared and symbolic(length) and may_exceed(length, rows):
        raise ValueError(
            f"{kind} positions: axis T: expected a symbolic size of at most the table's {rows} rows, got {length}; "
            f"give jax.export.symbolic_shape the constraint '{length} <= {rows}'"
        )
    if shared and not symbolic(batch, length) and batch > 1 and length > rows:
        raise ValueError(f"{kind} positions: {x.shape[1]} tokens, but the table has {rows} rows; set max_length")
