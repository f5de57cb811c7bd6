"""Detects NaN or infinite losses, gradients and parameters, and memory exhaustion, and reports them in one line.

The checks do not make a train step wait for the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.errors import Diverged, RunError


def finite(arrays: Mapping[str, jax.Array]) -> jax.Array:
    """Whether all elements of each array are finite: a boolean array [P] in the order of the sorted names.

    >>> print(finite({"kernel": jnp.array([1.0, jnp.inf]), "bias": jnp.zeros(3)}))
    [ True False]
    """
    return jnp.stack([jnp.isfinite(arrays[name]).all() for name in sorted(arrays)])


_finite = jax.jit(finite)


class Health:
    """Checks losses and gradients at steps where the host waits anyway. Until then the flags stay on the device.

    `names` are the names of the parameters in the order of the module; the first bad one in this order is reported.
    `whose` has a label for each replica, such as "seed 0".
    """

    def __init__(self, names: Sequence[str], whose: Sequence[str]):
        self.names, self.whose = names, whose
        self.order = {name: index for index, name in enumerate(sorted(names))}
        self.unseen: list[tuple[int, jax.Array, jax.Array]] = []

    def watch(self, step: int, metrics: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Stores the values that `check` reads and returns the metrics to log."""
        rest = dict(metrics)
        self.unseen.append((step, rest["loss"], rest.pop("finite_gradients")))
        return rest

    def check(self) -> None:
        """Raises Diverged for the first step since the last check with a NaN or infinite loss or gradient."""
        unseen, self.unseen = jax.device_get(self.unseen), []
        for step, losses, flags in unseen:
            for whose, loss, gradients in zip(
                self.whose, np.atleast_1d(losses), np.reshape(flags, (-1, len(self.names))), strict=True
            ):
                bad = [name for name in self.names if not gradients[self.order[name]]]
                if bad or not math.isfinite(loss):
                    raise Diverged(
                        f"step {step}, {whose}: the loss is {loss}{_gradients(bad, len(self.names))}; "
                        "lower training.learning_rate or set training.clip_norm"
                    )

    def check_state(self, step: int, state: Mapping[str, Any]) -> None:
        """Raises Diverged if a parameter or a statistic is NaN or infinite after the update of `step`."""
        arrays = {**state["parameters"], **state["statistics"]}
        flags = jax.device_get(_finite(arrays))
        bad = [name for name, good in zip(sorted(arrays), flags, strict=True) if not good]
        if bad:
            first = next((name for name in self.names if name in bad), bad[0])
            raise Diverged(
                f"step {step}: {first} is not finite after the update, although the gradients are finite; "
                "lower training.learning_rate"
            )


def _gradients(bad: Sequence[str], total: int) -> str:
    if not bad:
        return ""
    others = f" and of {len(bad) - 1} more of {total} parameters" if len(bad) > 1 else ""
    return f", the gradient of {bad[0]}{others} is not finite"


@contextmanager
def enough_memory(batch_size: int) -> Iterator[None]:
    """Converts an out-of-memory error of the host or a device into a RunError with the batch size and remedies."""
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        text = str(error)
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in text:
            raise
        raise RunError(
            f"out of memory at training.batch_size={batch_size}: make it smaller, set training.accumulation_steps, "
            "or set remat=True in the model's stacks"
        ) from error
