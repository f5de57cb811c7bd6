"""What a step takes, apart from compilation, evaluation and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax


class Clock:
    """Times the steps of a loop that does not wait for them; the first step of each shape counts as compilation."""

    def __init__(self) -> None:
        self.seconds = self.compile_seconds = self.counted = 0.0
        self.timed = 0
        self.tokens: list[Any] = []  # of steps not yet logged, still on the device
        self.shapes: set[tuple[int, ...]] = set()
        self.last: Any = None
        self.since = time.perf_counter()

    def run(self, shape: tuple[int, ...], step: Callable[..., tuple[Any, Any]], *arguments: Any) -> tuple[Any, Any]:
        """step(*arguments) -> (state, metrics), waiting only where the shape is new."""
        if shape in self.shapes:
            self.timed += 1
            state, self.last = step(*arguments)
            return state, self.last
        self.shapes.add(shape)
        with self.paused():
            started = time.perf_counter()
            state, self.last = jax.block_until_ready(step(*arguments))
            self.compile_seconds += time.perf_counter() - started
        return state, self.last

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time inside counts as no step's."""
        jax.block_until_ready(self.last)
        self.lap()
        try:
            yield
        finally:
            self.since = time.perf_counter()

    def lap(self) -> float:
        """Seconds of stepping since the last lap."""
        now = time.perf_counter()
        elapsed, self.since = now - self.since, now
        self.seconds += elapsed
        return elapsed

    def summary(self) -> dict[str, float]:
        """Figures of this process's part of the run."""
        seconds = max(self.seconds, 1e-9)
        return {
            "steps_per_second": self.timed / seconds,
            "tokens_per_second": self.counted / seconds,
            "seconds": self.seconds + self.compile_seconds,
            "compile_seconds": self.compile_seconds,
        }
