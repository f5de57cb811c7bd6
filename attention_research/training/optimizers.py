"""Optimizers: optax's, under the config's names. Each is called with a schedule and gives a transformation."""

from __future__ import annotations

from typing import Any

import optax

from attention_research.registry import NonNegativeFloat, PositiveFloat, Rate


class Adam:
    """Kingma & Ba 2015; the defaults are Vaswani et al. 2017, section 5.3."""

    def __init__(self, *, b1: Rate = 0.9, b2: Rate = 0.98, epsilon: PositiveFloat = 1e-9):
        self.b1, self.b2, self.epsilon = b1, b2, epsilon

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.adam(schedule, self.b1, self.b2, self.epsilon)


class AdamW:
    """Loshchilov & Hutter 2019: decoupled weight decay, on the matrices only (names that end in kernel or table)."""

    def __init__(
        self, *, b1: Rate = 0.9, b2: Rate = 0.999, epsilon: PositiveFloat = 1e-8, weight_decay: NonNegativeFloat = 0.01
    ):
        self.b1, self.b2, self.epsilon, self.weight_decay = b1, b2, epsilon, weight_decay

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.adamw(schedule, self.b1, self.b2, self.epsilon, weight_decay=self.weight_decay, mask=decayed)


def decayed(parameters: dict[str, Any]) -> dict[str, bool]:
    """By name, never by rank: stacked biases and gains are matrices too."""
    return {name: name.endswith(("kernel", "table")) for name in parameters}


class SGD:
    """Stochastic gradient descent; momentum 0 keeps no state."""

    def __init__(self, *, momentum: Rate = 0.0, nesterov: bool = False):
        self.momentum, self.nesterov = momentum, nesterov

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.sgd(schedule, self.momentum or None, self.nesterov)
