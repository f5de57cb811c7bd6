"""Sequences of tokens with a class each, all in memory: batches that are a pure function of (seed, step).

A batch is {"source" [B S], "label" [B]} and whatever else a set has, all int32: tokens (0 is padding), and the class,
-1 in rows that only fill a batch. Every batch is `max_length` wide. What the sets of the Long Range Arena share; a set
subclasses `LabelledArrays` and gives `_made`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.data import plan, storage
from attention_research.errors import ConfigError

Batch = dict[str, np.ndarray]
_EVALUATION_SEED = 2011


def kept(maker: type, settings: Any, make: Callable[[], Batch]) -> Batch:
    """What `make` gives, made once for these settings and the maker's source file, then read from the data folder."""
    code = Path(inspect.getfile(maker)).read_text(encoding="utf-8")
    key = storage.content_hash([maker.__name__, settings], [code])
    path = storage.folder("arrays") / f"{key}.npz"
    with storage.locked(f"arrays-{key}"):
        if not path.exists():
            with storage.written(path) as temporary:
                arrays: dict[str, Any] = make()
                np.savez_compressed(temporary, **arrays)
    with np.load(path) as stored:
        return dict(stored)


class LabelledArrays:
    """`numbers` are the examples of each split; `name` says what they are, `settings` what they depend on."""

    #: The arrays of tokens in a batch.
    sides: tuple[str, ...] = ("source",)

    def __init__(
        self, name: str, max_length: int, numbers: dict[str, int], classes: tuple[str, ...], settings: dict[str, Any]
    ):
        self.name, self.max_length, self.numbers, self.classes = name, max_length, numbers, classes
        self.settings = settings
        self._report: Callable[[str], None] = lambda line: None
        self.arrays = functools.cache(self._arrays)
        self.plan = functools.lru_cache(maxsize=4)(self._plan)

    def _made(self, split: str) -> Batch:
        """All of a split: the sides [n max_length] and "label" [n], the same ones every time."""
        raise NotImplementedError

    def prepare(self, progress: Callable[[str], None] | None = None) -> LabelledArrays:
        """Make the training split, so that what takes time is reported; later it is there."""
        self._report = progress or self._report
        self.arrays("train")
        return self

    def _arrays(self, split: str) -> Batch:
        if split not in self.numbers:
            raise ConfigError(f"{self.name} has no split {split!r}; it has {', '.join(self.numbers)}")
        return {name: np.asarray(array, np.int32) for name, array in self._made(split).items()}

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of what the examples are a function of, and of the test split itself."""
        test = [array.tobytes().hex() for _, array in sorted(self.arrays("test").items())]
        return storage.content_hash([self.name, self.max_length, self.numbers, self.settings], test)

    def describe(self) -> str:
        """One line for the user."""
        return f"{self.name} · {self.numbers['train']:,} examples of {self.max_length:,} tokens"

    def sizes(self) -> dict[str, int]:
        """Examples of each split."""
        return dict(self.numbers)

    def labels(self, split: str) -> np.ndarray:
        """The classes [n] of a split. Example ids index them."""
        return self.arrays(split)["label"]

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        """The batch of some examples, filled up with padding."""
        (shapes,) = self.train_shapes(rows)
        batch = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
        batch["label"][:] = -1
        for name, array in self.arrays(split).items():
            batch[name][: len(ids)] = array[ids]
        return batch

    # Training

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is made."""
        return [{**{side: (batch_size, self.max_length) for side in self.sides}, "label": (batch_size,)}]

    def _plan(self, seed: int, batch_size: int) -> plan.Plan:
        lengths = np.full((self.numbers["train"], 2), self.max_length)
        order = lambda epoch: np.random.default_rng([seed, epoch])
        return plan.Plan(lambda epoch: plan.bucket_epoch(lengths, (self.max_length,), batch_size, order(epoch)))

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; of several hosts, the rows of one."""
        rows = self.plan(seed, batch_size)[step].host(host, hosts).rows
        ids = np.array([example for row in rows for example in row], np.int64)
        return self._taken("train", ids, len(rows))

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, batch) from `start_step` on, without end."""
        step = start_step
        while True:
            yield step, self.batch_at(seed, step, batch_size, host, hosts)
            step += 1

    # Evaluation

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(ids [B], batch) over a split, or over `examples` of a fixed permutation; -1 marks a filling row."""
        ids = np.arange(len(self.labels(split)))
        if examples is not None:
            ids = np.sort(np.random.default_rng(_EVALUATION_SEED).permutation(ids)[:examples])
        for start in range(0, len(ids), batch_size):
            some = ids[start : start + batch_size]
            yield np.pad(some, (0, batch_size - len(some)), constant_values=-1), self._taken(split, some, batch_size)
