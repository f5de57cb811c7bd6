"""Learned positions, Gehring et al. 2017 (arXiv 1705.03122), section 3.1: p_i = table[i].

Vaswani et al. 2017, Table 3 row E, compare them with sinusoids. There are no encodings beyond the end of the table.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attention_research.kernels.integers import as_int32
from attention_research.kernels.precision import accumulator
from attention_research.kernels.shapes import check_shapes


def learned_positions(table: Float[Array, "P D"], positions: Int[Array, "B T"]) -> Float[Array, "B T D"]:
    """table[positions]. A position outside of 0 to P - 1 gives NaN, instead of silently the last row.

    The gradient of a row is summed in float32 over all occurrences of its position.

    >>> table = jnp.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> learned_positions(table, jnp.array([[2, 0]])).tolist()
    [[[4.0, 5.0], [0.0, 1.0]]]
    """
    check_shapes(table=(table, "P D"), positions=(positions, "B T"))
    positions = as_int32("positions", positions)
    wide = jnp.asarray(table).astype(accumulator(table.dtype))
    rows = wide.at[positions].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)
    return rows.astype(table.dtype)
