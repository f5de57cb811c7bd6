"""The optimizers of optax under the names of the config. Each maps a schedule to a gradient transformation."""

from __future__ import annotations

import re
from typing import Any

import jax
import optax

from attention_research.signatures import NonNegativeFloat, Positive, PositiveFloat, Rate


class Adam:
    """Kingma & Ba 2015; the defaults are Vaswani et al. 2017, section 5.3."""

    def __init__(self, *, b1: Rate = 0.9, b2: Rate = 0.98, epsilon: PositiveFloat = 1e-9):
        self.b1, self.b2, self.epsilon = b1, b2, epsilon

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.adam(schedule, self.b1, self.b2, self.epsilon)


class AdamW:
    """Loshchilov & Hutter 2019: decoupled weight decay, on the matrices only (names that end in kernel or table).

    `weight_decay` is the factor of the decay.
    """

    def __init__(
        self, *, b1: Rate = 0.9, b2: Rate = 0.999, epsilon: PositiveFloat = 1e-8, weight_decay: NonNegativeFloat = 0.01
    ):
        self.b1, self.b2, self.epsilon, self.weight_decay = b1, b2, epsilon, weight_decay

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.adamw(schedule, self.b1, self.b2, self.epsilon, weight_decay=self.weight_decay, mask=decayed)


def decayed(parameters: dict[str, Any]) -> dict[str, bool]:
    """Which parameters have weight decay. The name decides and not the rank, because stacked biases and gains are
    matrices too.

    >>> decayed({"attention.query.kernel": ..., "attention.query.bias": ..., "vocabulary.table": ...})
    {'attention.query.kernel': True, 'attention.query.bias': False, 'vocabulary.table': True}
    """
    return {name: name.endswith(("kernel", "table")) for name in parameters}


class SGD:
    """Stochastic gradient descent, with optional momentum. With momentum 0 there is no state, and `nesterov` has no
    effect.

    `weight_decay` w adds w times the parameter to the gradient of matrices and filters (`decayed`). This is the L2
    penalty w / 2 ||p||^2 of Krizhevsky et al. 2012 and He et al. 2015.

    `momentum` is the decay rate of the running sum of gradients.
    """

    def __init__(self, *, momentum: Rate = 0.0, nesterov: bool = False, weight_decay: NonNegativeFloat = 0.0):
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        descent = optax.sgd(schedule, self.momentum or None, self.nesterov)
        if not self.weight_decay:
            return descent
        return optax.chain(optax.add_decayed_weights(self.weight_decay, mask=decayed), descent)


class Adadelta:
    """Adadelta, Zeiler 2012, algorithm 1. `learning_rate` multiplies the step; the paper has no learning rate, which
    corresponds to 1.0 with a constant schedule.

    step = g RMS[dx]_{t-1} / RMS[g]_t, RMS[y]^2 = E[y^2] + epsilon, E[y^2]_t = rho E[y^2]_{t-1} + (1 - rho) y_t^2.
    The defaults are those of Bahdanau et al. 2015.

    `rho` is the decay rate of both averages.
    """

    def __init__(self, *, rho: Rate = 0.95, epsilon: PositiveFloat = 1e-6):
        self.rho, self.epsilon = rho, epsilon

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.adadelta(schedule, self.rho, self.epsilon)


class RMSProp:
    """RMSProp, Tieleman & Hinton 2012 (lecture 6e), as in PyTorch: step = learning_rate g / (RMS[g]_t + epsilon).

    RMS[g]^2_t = decay RMS[g]^2_{t-1} + (1 - decay) g^2 begins at 0. `decay` is the decay rate of this average; 0.99 is
    PyTorch's.
    """

    def __init__(self, *, decay: Rate = 0.99, epsilon: PositiveFloat = 1e-8):
        self.decay, self.epsilon = decay, epsilon

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation."""
        return optax.rmsprop(schedule, self.decay, self.epsilon, eps_in_sqrt=False)


class Adafactor:
    """Shazeer & Stern 2018, algorithms 4 and 5, without momentum, as T5 uses it (Raffel et al. 2020, section 3.1.2).

    V_t = b_t V_{t-1} + (1 - b_t)(g^2 + 1e-30), b_t = 1 - t^-decay_exponent. If both dimensions of a matrix [n m] are at
    least `min_dim_size_to_factor`, only the row and column means of V are stored. U = g / sqrt(V) is clipped to a root
    mean square of `clipping_threshold`. The step is schedule max(1e-3, RMS(parameter)) U, so the learning rate is
    relative to the size of the parameter. The rate of T5 is 1 / sqrt(max(t, 10^4)): schedule inverse_sqrt with
    learning_rate 0.01.

    `decay_exponent` determines how fast the average of the squared gradients becomes slower.
    """

    def __init__(
        self,
        *,
        decay_exponent: PositiveFloat = 0.8,
        clipping_threshold: PositiveFloat = 1.0,
        min_dim_size_to_factor: Positive = 128,
    ):
        self.decay_exponent, self.clipping_threshold = decay_exponent, clipping_threshold
        self.min_dim_size_to_factor = min_dim_size_to_factor

    def __call__(self, schedule: optax.Schedule) -> optax.GradientTransformation:
        """The transformation, applied to each layer separately."""
        return per_layer(
            optax.adafactor(
                schedule,
                min_dim_size_to_factor=self.min_dim_size_to_factor,
                decay_rate=self.decay_exponent,
                clipping_threshold=self.clipping_threshold,
            )
        )


def stack_of(name: str) -> str:
    """The name of the stack segment (`layers.stack`) whose layers are the first axis of a parameter, or "" if the
    parameter does not belong to a stack.

    >>> stack_of("encoder.stack.segments.0.norm.scale"), stack_of("vocabulary.table")
    ('encoder.stack.segments.0', '')
    """
    found = re.match(r"(.*\bsegments\.\d+)\.", name)
    return found.group(1) if found else ""


def per_layer(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Applies `inner` to each layer of a stack separately. A stack stores the arrays of its layers as [L ...].

    A transformation that depends on the shape or size of an array would otherwise treat the stacked layers as one
    array. For example, Adafactor would clip and scale them together.
    """

    def grouped(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
        groups: dict[str, dict[str, Any]] = {}
        for name, x in tree.items():
            groups.setdefault(stack_of(name), {})[name] = x
        return groups

    def init(parameters: dict[str, Any]) -> dict[str, Any]:
        return {
            stack: (jax.vmap(inner.init) if stack else inner.init)(group)
            for stack, group in grouped(parameters).items()
        }

    def update(gradients: dict[str, Any], state: dict[str, Any], parameters: dict[str, Any]) -> tuple[Any, Any]:
        updates: dict[str, Any] = {}
        after: dict[str, Any] = {}
        own = grouped(parameters)
        for stack, group in grouped(gradients).items():
            transform = jax.vmap(inner.update) if stack else inner.update
            changed, after[stack] = transform(group, state[stack], own[stack])
            updates |= changed
        return {name: updates[name] for name in gradients}, after

    return optax.GradientTransformation(init, update)
