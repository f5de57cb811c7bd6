"""What more steps mean for a run that goes on: schedules that end with the run are stretched, and the run says so."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import Config, build


def stretched(before: Config, now: Config, step: int) -> str | None:
    """A line where the learning rates after `step`, which the run has reached, are others because it has more steps."""
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
