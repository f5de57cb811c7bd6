"""Checks of the arguments of cells: input and state of one floating dtype, and the concatenated weights of gates."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array

from attention_research.kernels.shapes import check_shapes


def check_gates(
    gates: int, x: Array, hidden: Array, input_kernel: Array, state_kernel: Array, **biases: tuple[Array, int]
) -> None:
    """Checks x [B I], hidden [B D], kernels [I gates*D] and [D gates*D], and each bias=(array, its number of gates).

    Raises ValueError naming the argument and the axis.
    """
    check_shapes(x=(x, "B I"), hidden=(hidden, "B D"))
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"x: expected floating point, got {x.dtype}")
    if hidden.dtype != x.dtype:
        raise ValueError(f"hidden: expected x's dtype {x.dtype}, got {hidden.dtype}")
    width = hidden.shape[1]
    check_shapes(
        x=(x, "B I"), hidden=(hidden, "B D"), input_kernel=(input_kernel, f"I {gates * width}"),
        state_kernel=(state_kernel, f"D {gates * width}"),
        **{name: (bias, str(count * width)) for name, (bias, count) in biases.items()},
    )  # fmt: skip
