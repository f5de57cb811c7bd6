"""What data give: the contract between a data set and training, evaluation and the tools that read examples.

Data are batches as a pure function of (seed, step), the same on any number of hosts, and splits to evaluate on. That is
`Data`, and all that training needs. What else there is to score or to show depends on what an example is:

    Labelled      classes, labels(split)           one class an example
    HasText       text(split)                      examples that can be read
    HasTokens     tokens(split)                    what a model reads of each text
    HasTargets    target_tokens(split), ...        texts that a model is to write, token by token
    ReadsText     read(sources)                    new texts as a model knows them
    WritesText    written(tokens, sources)         what a model wrote, as text

A batch is a flat dictionary of arrays of the shapes that `train_shapes` says, int32 unless `dtypes` says otherwise.
Text is "source" and "target" [B T], 0 where padding; packed rows add "source_segments", "source_positions" and the
target's (`data.batching`). Images are "image" uint8 [B Y X C], classes "label" [B]. The examples of a split are
numbered: these ids index `text` and `labels`. In evaluation an id of -1 marks a row that only fills the batch.

Nothing is read before it is asked for. Before a run begins, `prepare` fetches, builds and tokenises. Of a run that has
begun, `take` says what its folder keeps (`data.kept`), so that the vocabulary is the one that it was trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from attention_research.data.kept import Kept
    from attention_research.data.tokens import TokenArray

#: Name -> array.
Batch: TypeAlias = dict[str, np.ndarray]
Report: TypeAlias = Callable[[str], None]


class Data(Protocol):
    """What training, validation and the records of a run ask of any data."""

    @property
    def name(self) -> str:
        """What they are called in messages."""
        ...

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The arrays of a batch that are not int32 -> what they are."""
        ...

    @property
    def target_length(self) -> int | None:
        """At most so many tokens are written of a target; None: as many as the model can."""
        ...

    @property
    def tokenizer(self) -> Any:
        """The trained vocabulary of what is written, else of what is read; None where there is no text."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the content of every split, and of the vocabulary."""
        ...

    def prepare(self, progress: Report | None = None) -> Self:
        """Does what is slow, once; what is there is only opened. Returns the data themselves."""
        ...

    def take(self, kept: Kept, report: Report) -> None:
        """Belong to a run that has begun. Raises ConfigError where they are no longer what it was trained on."""
        ...

    def stored(self, run: Path) -> Kept:
        """What the folder of a run of these data keeps (`data.kept`), to `take`."""
        ...

    def content(self) -> dict[str, Any]:
        """What the folder is to keep of text from outside this code: "fingerprint", "splits", "facts", the "files" that
        were read. {} where code makes the data."""
        ...

    def stamp(self) -> str | None:
        """Changes whenever the files that the data are made of may have changed; "" where code alone makes them, None
        where that cannot be told."""
        ...

    def is_here(self) -> bool:
        """Whether the data can be read without being fetched, built or tokenised first."""
        ...

    def learned(self) -> dict[str, Any]:
        """What a model relies on beside the vocabulary, as JSON: it is kept in the run's folder."""
        ...

    def describe(self) -> str:
        """One line for the user: name, sizes."""
        ...

    def sizes(self) -> dict[str, int]:
        """Split -> how many examples."""
        ...

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see, from the config alone."""
        ...

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; of several hosts, the rows of one."""
        ...

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, `batch_at` it) from `start_step` on, without end. The step is the whole state."""
        ...

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(ids [B], batch) over a split, every example exactly once, or over `examples` of a fixed permutation."""
        ...


class Labelled(Data, Protocol):
    """Examples of one class each."""

    @property
    def classes(self) -> Sequence[str]:
        """The names of the classes in the order of their numbers."""
        ...

    def labels(self, split: str) -> np.ndarray:
        """The classes [n] of a split."""
        ...


@runtime_checkable
class HasText(Protocol):
    """Examples that can be read."""

    def text(self, split: str) -> tuple[list[str], Any]:
        """(sources, targets) of a split: a target is a text, or the texts that are right, as captions are."""
        ...


@runtime_checkable
class HasTokens(Protocol):
    """Texts whose tokens a model reads."""

    def tokens(self, split: str) -> Sequence[np.ndarray]:
        """The tokens of each text of a split, cut as in a batch."""
        ...


@runtime_checkable
class HasTargets(Protocol):
    """Texts that a model is to write: their vocabulary is `tokenizer`."""

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The target tokens of a split (or of `examples` of it) one after the other: those that a loss counts."""
        ...

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The same, each target a sequence of its own."""
        ...

    def target_counts(self) -> np.ndarray:
        """[tokens] how often each token of the vocabulary is a target in training."""
        ...


class Writable(Data, HasTargets, Protocol):
    """Data whose targets are texts."""


@runtime_checkable
class ReadsText(Protocol):
    """Takes texts from outside the data set."""

    def read(self, sources: Sequence[str]) -> list[list[int]]:
        """The tokens of new texts as a model knows them, each with the end of sentence, uncut."""
        ...


@runtime_checkable
class WritesText(Protocol):
    """Turns what a model wrote into text."""

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of what a model wrote of some sources."""
        ...
