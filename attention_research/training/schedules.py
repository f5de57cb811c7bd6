"""Learning-rate schedules. Each takes the `learning_rate` of the config and returns a function (update count from 0) ->
rate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attention_research.config import Config, build
from attention_research.errors import ConfigError
from attention_research.signatures import NonNegative, NonNegativeFloat, Positive, PositiveFloat


class Noam:
    """Vaswani et al. 2017, equation 3: rate = factor D^-0.5 min(step^-0.5, step warmup^-1.5), step from 1.

    `learning_rate` is the factor (1 in the paper) and D the width of the model.

    >>> rate = Noam(warmup_steps=100)(1.0, width=512, steps=1000)
    >>> [f"{rate(count):.1e}" for count in (0, 99, 399)]
    ['4.4e-05', '4.4e-03', '2.2e-03']
    """

    def __init__(self, *, warmup_steps: Positive = 4000):
        self.warmup_steps = warmup_steps

    def __call__(self, learning_rate: float, *, width: int | None, steps: int) -> optax.Schedule:
        """The schedule. `steps`, the length of the run, is unused. Raises ConfigError for a model without a width."""
        del steps
        if width is None:
            raise ConfigError(
                "config.training.schedule.kind=noam: divides by the square root of model.width, which this model does "
                "not have; take another schedule, such as constant, cosine or inverse_sqrt"
            )

        def rate(count):
            step = jnp.asarray(count, jnp.float32) + 1.0
            return learning_rate * width**-0.5 * jnp.minimum(step**-0.5, step * self.warmup_steps**-1.5)

        return rate


class InverseSqrt:
    """Raffel et al. 2020: rate = learning_rate sqrt(warmup / max(step, warmup)).

    The rate is `learning_rate` for the first `warmup_steps` updates, without an increase, and then decreases. With
    `ramp_steps` above 0, the rate is also multiplied by min(1, step / `ramp_steps`): it increases linearly over these
    updates, as in Narang et al. 2021 with Adam.

    >>> rate = InverseSqrt(warmup_steps=100)(0.01, width=None, steps=1000)
    >>> [f"{rate(count):.1e}" for count in (0, 99, 399)]
    ['1.0e-02', '1.0e-02', '5.0e-03']
    """

    def __init__(self, *, warmup_steps: Positive = 10000, ramp_steps: NonNegative = 0):
        self.warmup_steps, self.ramp_steps = warmup_steps, ramp_steps

    def __call__(self, learning_rate: float, *, width: int | None, steps: int) -> optax.Schedule:
        """The schedule. `width` and `steps` are unused."""
        del width, steps
        warmup, ramp = float(self.warmup_steps), float(max(self.ramp_steps, 1))

        def rate(count):
            step = jnp.asarray(count, jnp.float32) + 1.0
            return learning_rate * (warmup / jnp.maximum(step, warmup)) ** 0.5 * jnp.minimum(1.0, step / ramp)

        return rate


class Constant:
    """A constant rate after a linear warm-up of `warmup_steps`.

    >>> rate = Constant(warmup_steps=100)(0.001, width=None, steps=1000)
    >>> [f"{rate(count):.1e}" for count in (0, 50, 999)]
    ['0.0e+00', '5.0e-04', '1.0e-03']
    """

    def __init__(self, *, warmup_steps: NonNegative = 0):
        self.warmup_steps = warmup_steps

    def __call__(self, learning_rate: float, *, width: int | None, steps: int) -> optax.Schedule:
        """The schedule. `width` and `steps` are unused."""
        del width, steps
        if not self.warmup_steps:  # with 0 warm-up steps, the schedule of optax would stay at its initial value 0
            return optax.constant_schedule(learning_rate)
        return optax.warmup_constant_schedule(0.0, learning_rate, self.warmup_steps)


class Cosine:
    """Loshchilov & Hutter 2017: linear warm-up from `initial` times the peak to the peak, then half a cosine down to
    `final` times the peak at the last step.

    >>> rate = Cosine(warmup_steps=100, final=0.1)(0.001, width=None, steps=1000)
    >>> [f"{rate(count):.1e}" for count in (50, 100, 550, 1000)]
    ['5.0e-04', '1.0e-03', '5.5e-04', '1.0e-04']
    """

    def __init__(
        self, *, warmup_steps: NonNegative = 0, initial: NonNegativeFloat = 0.0, final: NonNegativeFloat = 0.0
    ):
        self.warmup_steps, self.initial, self.final = warmup_steps, initial, final

    def __call__(self, learning_rate: float, *, width: int | None, steps: int) -> optax.Schedule:
        """The schedule over the whole run."""
        del width
        up = optax.linear_schedule(self.initial * learning_rate, learning_rate, self.warmup_steps)
        down = optax.cosine_decay_schedule(learning_rate, max(steps - self.warmup_steps, 1), alpha=self.final)
        return optax.join_schedules([up, down], [self.warmup_steps])


class Linear:
    """Devlin et al. 2019: linear warm-up to the peak, then linear decay to `final` times the peak at the last step.

    >>> rate = Linear(warmup_steps=100)(0.001, width=None, steps=1000)
    >>> [f"{rate(count):.1e}" for count in (50, 100, 550, 1000)]
    ['5.0e-04', '1.0e-03', '5.0e-04', '0.0e+00']
    """

    def __init__(self, *, warmup_steps: NonNegative = 0, final: NonNegativeFloat = 0.0):
        self.warmup_steps, self.final = warmup_steps, final

    def __call__(self, learning_rate: float, *, width: int | None, steps: int) -> optax.Schedule:
        """The schedule over the whole run."""
        del width
        down = optax.linear_schedule(learning_rate, learning_rate * self.final, max(steps - self.warmup_steps, 1))
        if not self.warmup_steps:
            return down
        up = optax.linear_schedule(0.0, learning_rate, self.warmup_steps)
        return optax.join_schedules([up, down], [self.warmup_steps])


class Step:
    """Piecewise constant (Luong et al. 2015, section 4.1; He et al. 2016, section 4.2): after b updates, for each b of
    `boundaries`, the rate is multiplied by `factor`.

    >>> rate = Step(boundaries=(100, 500))(0.001, width=None, steps=1000)
    >>> [f"{rate(count):.1e}" for count in (99, 100, 500)]
    ['1.0e-03', '1.0e-04', '1.0e-05']
    """

    def __init__(self, *, boundaries: tuple[Positive, ...], factor: PositiveFloat = 0.1):
        self.boundaries, self.factor = boundaries, factor

    def __call__(self, learning_rate: float, *, width: int | None, steps: int) -> optax.Schedule:
        """The schedule. `width` and `steps` are unused."""
        del width, steps

        def rate(count):
            passed = jnp.asarray(count) >= jnp.asarray(self.boundaries, jnp.int32)
            return learning_rate * self.factor ** jnp.sum(passed).astype(jnp.float32)

        return rate


def stretched(before: Config, now: Config, step: int) -> str | None:
    """A message if more `training.steps` change the learning rates after `step`, which the run has reached; else None.

    This happens with schedules that end with the run, because they are stretched to the new length.
    """
    old, new = before.resolved["training"]["steps"], now.resolved["training"]["steps"]
    if old == new:
        return None
    counts = np.unique(np.linspace(step, max(old - 1, step), 9).astype(int))
    were, are = (_rates(config, counts) for config in (before, now))
    differ = np.flatnonzero(~np.isclose(were, are, rtol=1e-4, atol=0.0))
    if not differ.size:
        return None
    last, kind = differ[-1], now.resolved["training"]["schedule"]["kind"]
    return (
        f"training.steps is {new} and was {old}: the {kind} schedule now ends at step {new}; the learning rate of step "
        f"{counts[last] + 1} is {are[last]:.3g} instead of {were[last]:.3g}"
    )


def _rates(config: Config, counts: np.ndarray) -> np.ndarray:
    """The learning rates after these numbers of updates."""
    settings = build(config.resolved["training"], "training")()
    schedule = settings.schedule(config.resolved["model"].get("width"))
    with jax.numpy_dtype_promotion("standard"):  # Optax multiplies counts by numbers
        return np.asarray([float(schedule(jnp.asarray(count, jnp.int32))) for count in counts])
