"""A cell over a padded batch: one scan over time, with the law of PyTorch's packed sequences in both directions."""

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
    """(outputs, final state) from the first to the last position, or with `reverse` from the last to the first.

    Where `real` is False the state is carried unchanged and the output is 0: the final state is the one after the last
    non-padding position (with `reverse` the first), whatever stands in the padding, and padding has gradient 0.
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
