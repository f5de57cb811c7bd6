"""Runs a cell over a padded batch with one scan over time, with the semantics of PyTorch's packed sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attention_research.kernels.recurrent import recurrence

State = dict[str, Any]


def run(
    cell: Callable[[Array, State], State],
    x: Float[Array, "B T I"],
    state: dict[str, Float[Array, "B D"]],
    real: Bool[Array, "B T"] | None = None,
    *,
    reverse: bool = False,
) -> tuple[Float[Array, "B T D"], dict[str, Float[Array, "B D"]]]:
    """Runs a cell over all positions, or in reverse order with `reverse`. Returns (outputs, final state).

    At padding (`real` False), the state does not change and the output is 0. The final state is therefore the state
    after the last non-padding position (with `reverse`, the first). Padding has no effect and gradient 0.

    >>> count = lambda x, state: {"hidden": state["hidden"] + x}  # adds up its inputs
    >>> real = jnp.array([[True, True, False]])
    >>> outputs, final = run(count, jnp.array([[[1.0], [2.0], [4.0]]]), {"hidden": jnp.zeros((1, 1))}, real)
    >>> outputs.ravel().tolist(), final["hidden"].tolist()  # padding gives 0 and leaves the state
    ([1.0, 3.0, 0.0], [[3.0]])
    """
    if real is not None:
        x = jnp.where(real[:, :, None], x, jnp.zeros((), x.dtype))

    def step(state: State, inputs: tuple[Array, Array | None]) -> tuple[State, Array]:
        x, here = inputs
        after = cell(x, state)
        if here is None:
            return after, after["hidden"]
        after = {name: jnp.where(here, after[name], before) for name, before in state.items()}
        return after, jnp.where(here, after["hidden"], jnp.zeros((), x.dtype))

    steps = x.swapaxes(0, 1), None if real is None else real.T[:, :, None]
    state, outputs = recurrence(step, state, steps, reverse=reverse)
    return outputs.swapaxes(0, 1), state
