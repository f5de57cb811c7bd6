"""What a step takes, apart from compilation, evaluation and checkpoints; how long the loop waited for batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

#: Steps given to the devices before the oldest has ended: with two the devices never wait for the host, a batch is on
#: its way to them while they compute, and a signal is answered within three steps.
AHEAD = 2


class Clock:
    """Times the steps of a loop that does not wait for them; the first step of each shape counts as compilation."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.seconds = self.compile_seconds = self.counted = self.waited = 0.0
        self.timed = 0
        self.tokens: list[Any] = []  # of timed steps not yet counted, still on the devices
        self.shapes: set[tuple[Any, ...]] = set()
        self.running: deque[Any] = deque()
        self.since = now()
        self.lapped = (0.0, 0.0)

    def next(
        self, batches: Iterator[tuple[int, Mapping[str, Any]]], place: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """The next batch, on its way to the devices while they compute the steps before."""
        started = self.now()
        _, batch = next(batches)
        self.waited += self.now() - started
        return place(batch)

    def run(self, step: Callable[..., tuple[Any, Any]], state: Any, batch: Mapping[str, Any]) -> tuple[Any, Any]:
        """step(state, batch) -> (state, metrics), waiting for its end only where a shape is new.

        Elsewhere it is an error for the step to need from the host what has not been placed on the devices.
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
        """Time inside counts as no step's."""
        jax.block_until_ready(list(self.running))
        self.running.clear()
        self.seconds += self.now() - self.since
        try:
            yield
        finally:
            self.since = self.now()

    def lap(self) -> dict[str, float | None]:
        """Figures of the timed steps since the last lap, None where there was none; waits for those steps."""
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

    def summary(self) -> dict[str, float]:
        """Figures of this process's part of the run; `data_wait` is the share of the steps' time spent waiting for
        batches, `compile_seconds` what the first step of each shape took."""
        seconds = max(self.seconds, 1e-9)
        return {
            "steps_per_second": self.timed / seconds,
            "tokens_per_second": self.counted / seconds,
            "data_wait": self.waited / seconds,
            "seconds": self.seconds + self.compile_seconds,
            "compile_seconds": self.compile_seconds,
        }
