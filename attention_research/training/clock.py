"""Measures the time of train steps, without compilation, evaluation and checkpoints, and the time spent waiting for
batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

#: The number of steps that are dispatched to the devices before the oldest one has ended. With two, the devices never
#: wait for the host, the next batch is transferred while they compute, and a signal takes effect within three steps.
AHEAD = 2


class Clock:
    """Times the steps of a loop that dispatches them asynchronously. The first step of each shape counts as
    compilation."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.seconds = self.compile_seconds = self.counted = self.waited = 0.0
        self.timed = 0
        self.tokens: list[Any] = []  # token counts of timed steps that are still on the devices
        self.shapes: set[tuple[Any, ...]] = set()
        self.running: deque[Any] = deque()
        self.since = now()
        self.lapped = (0.0, 0.0)

    def next(
        self, batches: Iterator[tuple[int, Mapping[str, Any]]], place: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """The next batch. It is transferred to the devices while they compute the earlier steps."""
        started = self.now()
        _, batch = next(batches)
        self.waited += self.now() - started
        return place(batch)

    def run(self, step: Callable[..., tuple[Any, Any]], state: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """Runs step(state, batch) -> (state, metrics). Waits for its end only if the batch has a new shape.

        For a known shape, an implicit transfer from the host to the devices during the step is an error.
        """
        shape = tuple((name, *x.shape) for name, x in sorted(batch.items()))
        if shape not in self.shapes:
            self.shapes.add(shape)
            with self.paused():
                started = self.now()
                state, metrics = jax.block_until_ready(step(state, batch))
                self.compile_seconds += self.now() - started
            return state, metrics
        with jax.transfer_guard("disallow"):
            state, metrics = step(state, batch)
        self.timed += 1
        self.tokens.append(metrics["tokens"])
        self.running.append(metrics)
        if len(self.running) > AHEAD:
            jax.block_until_ready(self.running.popleft())
        return state, metrics

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Waits for the running steps, then excludes the time of the block from the time of the steps."""
        jax.block_until_ready(list(self.running))
        self.running.clear()
        self.seconds += self.now() - self.since
        try:
            yield
        finally:
            self.since = self.now()

    def lap(self) -> dict[str, float | None]:
        """Waits for the running steps and returns figures of the timed steps since the last lap (None if there were
        none)."""
        with self.paused():
            tokens = sum(float(np.mean(x)) for x in jax.device_get(self.tokens))
            self.tokens.clear()
            self.counted += tokens
            seconds, waited = self.seconds - self.lapped[0], self.waited - self.lapped[1]
            self.lapped = (self.seconds, self.waited)
        none = not tokens
        return {
            "tokens_per_second": None if none else round(tokens / max(seconds, 1e-9), 1),
            "data_wait": None if none else round(waited / max(seconds, 1e-9), 4),
        }

    def summary(self) -> dict[str, float | None]:
        """Figures of the part of the run in this process. `data_wait` is the fraction of the step time that was spent
        waiting for batches; `compile_seconds` is the duration of the first step of each shape. Speeds and `data_wait`
        are None if no step was timed."""
        seconds, none = max(self.seconds, 1e-9), not self.timed
        return {
            "steps_per_second": None if none else self.timed / seconds,
            "tokens_per_second": None if none else self.counted / seconds,
            "data_wait": None if none else self.waited / seconds,
            "seconds": self.seconds + self.compile_seconds,
            "compile_seconds": self.compile_seconds,
        }
