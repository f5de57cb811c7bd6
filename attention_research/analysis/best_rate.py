"""A small module at the best of several learning rates, chosen on validation examples.

The examples that choose are neither trained on nor those whose numbers are reported: the best of several scores on the
reported examples would be too good by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flax import nnx
from jaxtyping import Array, Float, Key

from attention_research.analysis.fitting import fit


class Best(NamedTuple):
    """The trained `module`, its number of `parameters`, its `rate` and the training `losses`, one an update."""

    module: Any
    parameters: int
    rate: float
    losses: Float[Array, "U"]


def fit_best(
    make: Callable[[nnx.Rngs], Any],
    loss: Callable[[Any, Any], Float[Array, ""]],
    draw: Callable[[Key[Array, ""]], Any],
    validate: Callable[[Any], Float[Array, ""] | float],
    key: Key[Array, ""],
    *,
    steps: int,
    rates: Sequence[float],
) -> Best | None:
    """`fit` at each of `rates`, all from `key`: the one whose module has the lowest ``validate(module)``, the first of
    equal ones. None where no value is finite."""
    best, lowest = None, math.inf
    for rate in rates:
        structure, parameters, losses = fit(make, loss, draw, key, steps=steps, learning_rate=rate)
        module = structure.merge(parameters)
        value = float(validate(module))
        if math.isfinite(value) and value < lowest:
            best, lowest = Best(module, sum(x.size for x in parameters.values()), rate, losses), value
    return best
