"""Reads a table of positions, and checks that rows are not longer. JAX would silently use the last position for the
rest.

A layer with a table also has `expect_length(length)` for a decoder, which reads one position at a time.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.symbolic import may_exceed, symbolic


def expect_rows(kind: str, rows: int, length: int) -> None:
    """Raises ValueError if texts of `length` tokens are longer than a table of `rows` positions. A symbolic length must
    have a constraint that bounds it."""
    if symbolic(length) and may_exceed(length, rows):
        raise ValueError(
            f"{kind} positions: axis T: expected a symbolic size of at most the table's {rows} rows, got {length}; "
            f"give jax.export.symbolic_shape the constraint '{length} <= {rows}'"
        )
    if not symbolic(length) and length > rows:
        raise ValueError(f"{kind} positions: {length} tokens, but the table has {rows} rows; set max_length")


def rows_at(
    kind: str, table: Float[Array, "P D"], x: Float[Array, "B T D"], positions: Int[Array, "#B T"]
) -> Float[Array, "#B T D"]:
    """table[positions] in the dtype of x. Raises ValueError if rows that share their positions [1 T] are longer than
    the table.

    A packed row may be longer, because its positions restart with every example. A single row may be packed or not, so
    that its positions are checked. In a compiled program they are unknown, and those beyond the table give NaN.
    """
    (batch, length), shared, rows = x.shape[:2], positions.shape[0] == 1, table.shape[0]
    if shared and symbolic(length):
        expect_rows(kind, rows, length)
    positions = as_int32("positions", positions)
    if not shared or symbolic(length) or length <= rows:
        return table[positions].astype(x.dtype)
    if not symbolic(batch) and batch > 1:
        expect_rows(kind, rows, length)
    if not isinstance(positions, jax.core.Tracer) and (last := int(positions.max())) >= rows:
        raise ValueError(f"{kind} positions: position {last}, but the table has {rows} rows; set max_length")
    return table.at[positions].get(mode="fill", fill_value=jnp.nan).astype(x.dtype)
