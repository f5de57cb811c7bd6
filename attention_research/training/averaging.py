"""Checkpoint averaging: Vaswani et al. 2017, section 6.1 (the last 5 checkpoints of base, the last 20 of big).

The mean is over the newest checkpoints on the run's schedule (every `checkpoint_every` steps, and the last step): one
that an interruption or a good evaluation saved in between would weigh its neighbourhood twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from attention_research.errors import ConfigError
from attention_research.training import digests
from attention_research.training.checkpoints import Checkpoints


def newest_scheduled(checkpoints: Checkpoints, count: int) -> list[int]:
    """The steps of the `count` newest whole checkpoints on the schedule, the newest last.

    Raises ConfigError where fewer are kept.
    """
    kept = [step for step in checkpoints.scheduled() if digests.damage(checkpoints.folder / str(step)) is None]
    if len(kept) < count:
        assert checkpoints.settings is not None
        every = checkpoints.settings.checkpoint_every
        there = f"{len(kept)} ({', '.join(map(str, kept))})" if kept else "none"
        raise ConfigError(
            f"--average={count}: the run has {there} of the checkpoints that it writes every {every} steps; "
            f"give --average={max(len(kept), 1)}"
        )
    return kept[-count:]


def averaged(restore: Callable[[int], dict[str, Any]], steps: Sequence[int]) -> dict[str, Any]:
    """The state of the last of `steps` with the mean of all their parameters, summed in float64."""
    total: dict[str, np.ndarray] = {}
    for step in steps:
        state = restore(step)
        for name, x in state["parameters"].items():
            total[name] = total.get(name, 0.0) + np.asarray(x, np.float64)
    mean = {name: jnp.asarray(total[name] / len(steps), x.dtype) for name, x in state["parameters"].items()}
    return {**state, "parameters": mean}
