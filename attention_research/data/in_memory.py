"""Examples of one width, all in memory; batches are a pure function of (seed, step)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from attention_research.data import kept as kept_module
from attention_research.data import plan
from attention_research.data.kept import Kept
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError


class InMemory:
    """Base class of data sets that are held in memory. A subclass defines `train_shapes` and `_made`.

    `numbers` are the numbers of examples of each split; `max_length` is the width of every row. A batch has the arrays
    of `_made`, with the shapes of `train_shapes`. Rows that only fill a batch have the value `fill[name]`, or 0.
    """

    name: str
    max_length: int
    numbers: dict[str, int]
    fill: ClassVar[Mapping[str, float]] = {}
    #: Arrays of a batch that are not int32 -> their dtype.
    dtypes: ClassVar[Mapping[str, str]] = {}
    #: The part of the data that a run keeps (`data.kept`); None before the run has started.
    kept: Kept | None = None
    #: The largest number of generated tokens; None: the limit of the model.
    target_length: int | None = None
    #: The names of the classes in the order of their numbers; empty for examples without labels.
    classes: Sequence[str] = ()
    #: The vocabulary of the text; None for data without text.
    tokenizer: Any = None
    #: The seed of the permutation from which `examples` of a split are chosen for evaluation.
    evaluation_seed: ClassVar[int]

    def __init__(self) -> None:
        self.arrays = functools.cache(self._arrays)
        self.plan = functools.lru_cache(maxsize=4)(self._plan)

    def _made(self, split: str) -> Batch:
        """All arrays of a split, the same in every call."""
        raise NotImplementedError

    def _arrays(self, split: str) -> Batch:
        if split not in self.numbers:
            raise ConfigError(f"{self.name} has no split {split!r}; it has {', '.join(self.numbers)}")
        return self._made(split)

    def take(self, kept: Kept, report: Callable[[str], None]) -> None:
        """Uses the data of a run that has begun. Raises `ConfigError` if the code now makes other words or classes."""
        kept.same(self.learned())
        self.kept, self._report = kept, report

    def stored(self, run: Path) -> Kept:
        """The data kept in the folder of a run."""
        return kept_module.read(run)

    def learned(self) -> dict[str, Any]:
        """What a model depends on and could change: the words and classes in order."""
        return {"classes": list(self.classes)} if self.classes else {}

    def content(self) -> dict[str, Any]:
        """Empty: code makes these data, or they are not text."""
        return {}

    def stamp(self) -> str | None:
        """The empty string: these data cannot change."""
        return ""

    def is_here(self) -> bool:
        """True: nothing has to be prepared first."""
        return True

    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return dict(self.numbers)

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        """The batch of the given examples, with filling rows."""
        (shapes,) = self.train_shapes(rows)
        arrays = self.arrays(split)
        batch = {name: np.full(shape, self.fill.get(name, 0), arrays[name].dtype) for name, shape in shapes.items()}
        for name, array in arrays.items():
            batch[name][: len(ids)] = array[ids]
        return batch

    # Training

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        raise NotImplementedError

    def _plan(self, seed: int, batch_size: int) -> plan.Plan:
        lengths = np.full((self.numbers["train"], 2), self.max_length)
        order = lambda epoch: np.random.default_rng([seed, epoch])
        return plan.Plan(lambda epoch: plan.bucket_epoch(lengths, (self.max_length,), batch_size, order(epoch)))

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
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
        """(ids [B], batch) over a split, or over `examples` of a fixed permutation; id -1 marks a filling row."""
        ids = np.arange(len(next(iter(self.arrays(split).values()))))
        if examples is not None:
            ids = np.sort(np.random.default_rng(self.evaluation_seed).permutation(ids)[:examples])
        for start in range(0, len(ids), batch_size):
            some = ids[start : start + batch_size]
            yield np.pad(some, (0, batch_size - len(some)), constant_values=-1), self._taken(split, some, batch_size)
