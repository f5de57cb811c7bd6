"""Numbers that are no numbers, and memory that ran out: found without a step waiting for the host, told in one line."""

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
    """[P]: whether every element of each array is finite, in the order of the sorted names."""
    return jnp.stack([jnp.isfinite(arrays[name]).all() for name in sorted(arrays)])


_finite = jax.jit(finite)


class Health:
    """Looks at losses and gradients where the host waits anyway; until then each step's flags stay on the device.

    `names` are the parameters' in the order of the module, which decides what "first" is; `whose` says of each replica
    whose numbers they are, such as "seed 0".
    """

    def __init__(self, names: Sequence[str], whose: Sequence[str]):
        self.names, self.whose = names, whose
        self.order = {name: index for index, name in enumerate(sorted(names))}
        self.unseen: list[tuple[int, jax.Array, jax.Array]] = []

    def watch(self, step: int, metrics: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Keeps what `check` will look at; returns the metrics that are to be logged."""
        rest = dict(metrics)
        self.unseen.append((step, rest["loss"], rest.pop("finite_gradients")))
        return rest

    def check(self) -> None:
        """Raises Diverged for the first of the steps since the last check whose loss or gradients are not finite."""
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
        """Raises Diverged where a parameter or a statistic is not finite after the update of `step`."""
        arrays = {**state["parameters"], **state["statistics"]}
        flags = jax.device_get(_finite(arrays))
        bad = [name for name, good in zip(sorted(arrays), flags, strict=True) if not good]
        if bad:
            first = next((name for name in self.names if name in bad), bad[0])
            raise Diverged(
                f"step {step}: the update has made {first} not finite, from finite gradients; "
                "lower training.learning_rate"
            )


def _gradients(bad: Sequence[str], total: int) -> str:
    if not bad:
        return ""
    others = f" and of {len(bad) - 1} more of {total} parameters" if len(bad) > 1 else ""
    return f", the gradient of {bad[0]}{others} is not finite"


@contextmanager
def enough_memory(batch_size: int) -> Iterator[None]:
    """Turns memory that ran out, the host's or a device's, into a RunError that names the batch size and remedies."""
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
