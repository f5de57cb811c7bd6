"""The examples of each batch, as a pure function of their lengths, the seed and the epoch.

Every epoch has the same number of steps, so that step = epoch * steps + index. Every example occurs in an epoch exactly
once. The last batch of a plan may have fewer rows; the missing rows are padding, which the loss ignores.

Lengths are an integer array [n 2]: the numbers of source and target tokens, with the end of sentence.
"""

import dataclasses
import functools
import threading
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Step:
    """One batch: the fixed lengths of source and target, and the examples in each row (none: padding)."""

    source_length: int
    target_length: int
    rows: tuple[tuple[int, ...], ...]

    def host(self, host: int, hosts: int) -> "Step":
        """The rows of one of several hosts; each host has an equal, consecutive part."""
        part = len(self.rows) // hosts
        return dataclasses.replace(self, rows=self.rows[host * part : (host + 1) * part])


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The steps of an epoch as flat arrays, which take only a few bytes per example.

    `examples` are ordered by step and row. Row r is examples[row_starts[r]:row_starts[r+1]]. Step i has the rows from
    step_starts[i] to step_starts[i+1], with lengths shapes[i].
    """

    examples: np.ndarray
    row_starts: np.ndarray
    step_starts: np.ndarray
    shapes: np.ndarray
    batch_size: int

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> Step:
        first, last = int(self.step_starts[index]), int(self.step_starts[index + 1])
        starts = self.row_starts[first : last + 1].tolist()
        ids = self.examples[starts[0] : starts[-1]].tolist()
        rows = [tuple(ids[a - starts[0] : b - starts[0]]) for a, b in zip(starts, starts[1:], strict=False)]
        rows += [()] * (self.batch_size - len(rows))
        source, target = self.shapes[index].tolist()
        return Step(source, target, tuple(rows))


class Plan:
    """Step number -> `Step`, for training without end over the same examples. Thread-safe."""

    def __init__(self, epoch: Callable[[int], Epoch]):
        self._epoch = functools.lru_cache(maxsize=2)(epoch)
        self._lock = threading.Lock()
        self.steps_per_epoch = len(self.epoch(0))

    def epoch(self, number: int) -> Epoch:
        with self._lock:
            return self._epoch(number)

    def __getitem__(self, step: int) -> Step:
        epoch, index = divmod(step, self.steps_per_epoch)
        return self.epoch(epoch)[index]


def bucket_epoch(
    lengths: np.ndarray, boundaries: tuple[int, ...], batch_size: int, generator: np.random.Generator
) -> Epoch:
    """One example per row. All examples of a step have the smallest boundary that fits source and target as length.

    The examples of a bucket are shuffled. Those left over after whole batches move to the next larger bucket, so that
    only the last batch of the largest used bucket can be short. The steps are shuffled.
    """
    bucket = np.searchsorted(boundaries, lengths.max(axis=1))
    order = generator.permutation(len(lengths))
    order = order[np.argsort(bucket[order], kind="stable")]
    # In this order batches are consecutive runs; the bucket of a run's last example gives the shape.
    starts = np.append(np.arange(0, len(order), batch_size), len(order))
    shape = np.asarray(boundaries)[bucket[order[starts[1:] - 1]]]
    return _shuffled(order, np.arange(len(order) + 1), starts, np.stack([shape, shape], axis=1), batch_size, generator)


def first_fit(
    lengths: np.ndarray, source_length: int, target_length: int, order: np.ndarray, open_rows: int = 64
) -> list[list[int]]:
    """Packs pairs into rows of `source_length` and `target_length` tokens; each pair goes into the first row that fits.

    Only the newest `open_rows` rows are considered, so that the time is linear in the number of examples.
    """
    rows: list[list[int]] = []
    free = np.zeros((0, 2), np.int64)
    size = np.array([source_length, target_length])
    for example, length in zip(order.tolist(), lengths[order], strict=True):
        fits = (free >= length).all(axis=1)
        place = int(fits.argmax()) if fits.any() else -1
        if place < 0:
            rows.append([])
            free = np.concatenate([free, size[None]])[-open_rows:]
            place = len(free) - 1
        rows[len(rows) - len(free) + place].append(example)
        free[place] -= length
    return rows


def packed_epoch(
    rows: list[list[int]], shape: tuple[int, int], batch_size: int, generator: np.random.Generator
) -> Epoch:
    """Steps of shuffled packed rows. The examples of a row are fixed, which is harmless: segments separate them."""
    shuffled = [rows[row] for row in generator.permutation(len(rows))]
    starts = np.append(np.arange(0, len(rows), batch_size), len(rows))
    row_starts = np.concatenate([[0], np.cumsum([len(row) for row in shuffled])])
    shapes = np.tile(shape, (len(starts) - 1, 1))
    return _shuffled(np.concatenate(shuffled), row_starts, starts, shapes, batch_size, generator)


def _shuffled(examples, row_starts, step_starts, shapes, batch_size, generator) -> Epoch:
    """The epoch with its steps in random order."""
    order = generator.permutation(len(shapes))
    rows = np.concatenate([np.arange(step_starts[step], step_starts[step + 1]) for step in order])
    sizes = np.diff(row_starts)[rows]
    positions = np.repeat(row_starts[rows] - np.append(0, np.cumsum(sizes)[:-1]), sizes) + np.arange(sizes.sum())
    return Epoch(
        examples=examples[positions],
        row_starts=np.append(0, np.cumsum(sizes)),
        step_starts=np.append(0, np.cumsum(np.diff(step_starts)[order])),
        shapes=shapes[order],
        batch_size=batch_size,
    )
