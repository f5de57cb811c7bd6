"""The interface between a data set and training, evaluation and the tools that read examples.

`Data` is all that training needs: batches as a pure function of (seed, step), the same on any number of hosts, and
splits for evaluation. Other protocols depend on the kind of examples:

    Labelled      classes, labels(split)           examples with one class each
    HasText       text(split)                      examples with readable text
    HasTokens     tokens(split)                    the input tokens of each text
    HasTargets    target_tokens(split), ...        target texts for a model to generate
    MasksTokens   masked_text(split)               texts of which some tokens may be masked
    ReadsText     read(sources)                    tokens of new texts
    WritesText    written(tokens, sources)         text of generated tokens

A batch is a flat dictionary of arrays with the shapes of `train_shapes`, int32 unless `dtypes` says otherwise. Text is
"source" and "target" [B T], 0 at padding; packed rows add "source_segments", "source_positions" and the same for the
target (`data.batching`). Images are "image" uint8 [B Y X C], and classes "label" [B]. The examples of a split are
numbered, and these ids index `text` and `labels`. In evaluation, the id -1 marks a row that only fills the batch.

Data are read on demand. Before a run begins, `prepare` downloads, builds and tokenises. For a run that has begun,
`take` receives the data kept in its folder (`data.kept`), so that the vocabulary is that of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from attention_research.data.kept import Kept
    from attention_research.data.objectives.masked_tokens import MaskedText
    from attention_research.data.tokens import TokenArray

#: Name -> array.
Batch: TypeAlias = dict[str, np.ndarray]
Report: TypeAlias = Callable[[str], None]


class Data(Protocol):
    """The interface of all data for training, validation and the records of a run."""

    @property
    def name(self) -> str:
        """The name of the data in messages."""
        ...

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The arrays of a batch that are not int32 -> their dtype."""
        ...

    @property
    def target_length(self) -> int | None:
        """The largest number of generated tokens; None: the limit of the model."""
        ...

    @property
    def tokenizer(self) -> Any:
        """The trained vocabulary of the targets, or else of the sources; None for data without text."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the content of every split, and of the vocabulary."""
        ...

    def prepare(self, progress: Report | None = None) -> Self:
        """Does the slow preparation once; later calls only open the files. Returns the data."""
        ...

    def take(self, kept: Kept, report: Report) -> None:
        """Uses the data of a run that has begun. Raises ConfigError if they are not those that it was trained on."""
        ...

    def stored(self, run: Path) -> Kept:
        """The data kept in the folder of a run (`data.kept`), for `take`."""
        ...

    def content(self) -> dict[str, Any]:
        """The facts about external text that a run's folder keeps: "fingerprint", "splits", "facts", and the "files"
        that were read. {} for data made by code."""
        ...

    def stamp(self) -> str | None:
        """A string that changes if the files of the data may have changed; "" for data made by code alone, None if this
        cannot be known."""
        ...

    def is_here(self) -> bool:
        """Whether the data can be read without downloading, building or tokenising first."""
        ...

    def learned(self) -> dict[str, Any]:
        """Other data that a model needs, apart from the vocabulary, as JSON; the run's folder keeps them."""
        ...

    def describe(self) -> str:
        """A one-line description for the user: name, sizes."""
        ...

    def sizes(self) -> dict[str, int]:
        """Split -> the number of examples."""
        ...

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training, from the config alone."""
        ...

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        ...

    def train_batches(
        self, seed: int, batch_size: int, start_step: int = 0, host: int = 0, hosts: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """(step, its `batch_at`) from `start_step` on, without end. The step is the only state."""
        ...

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(ids [B], batch) over a split, each example exactly once, or over `examples` of a fixed permutation."""
        ...


class Labelled(Data, Protocol):
    """Data with one class per example."""

    @property
    def classes(self) -> Sequence[str]:
        """The names of the classes in the order of their numbers."""
        ...

    def labels(self, split: str) -> np.ndarray:
        """The class numbers [n] of a split."""
        ...


@runtime_checkable
class HasText(Protocol):
    """Data with readable text."""

    def text(self, split: str) -> tuple[list[str], Any]:
        """(sources, targets) of a split; a target is a text, or a list of correct texts such as captions."""
        ...


@runtime_checkable
class HasTokens(Protocol):
    """Data with texts as input."""

    def tokens(self, split: str) -> Sequence[np.ndarray]:
        """The tokens of each text of a split, truncated as in a batch."""
        ...


@runtime_checkable
class HasTargets(Protocol):
    """Data with target texts; their vocabulary is `tokenizer`."""

    def target_tokens(self, split: str, examples: int | None = None) -> np.ndarray:
        """The target tokens of a split (or of `examples` of it), concatenated: those that a loss counts."""
        ...

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The targets of a split (or of `examples` of it) as separate sequences."""
        ...

    def target_counts(self) -> np.ndarray:
        """[tokens] the count of each token of the vocabulary in the training targets."""
        ...


@runtime_checkable
class MasksTokens(Protocol):
    """Data whose targets may be masked tokens of their source."""

    def masked_text(self, split: str, examples: int | None = None) -> MaskedText | None:
        """A split, or `examples` of it, as a model reads it; None if the objective does not mask tokens in place."""
        ...


class Writable(Data, HasTargets, Protocol):
    """Data whose targets are texts."""


@runtime_checkable
class ReadsText(Protocol):
    """Data that can encode new texts."""

    def read(self, sources: Sequence[str]) -> list[list[int]]:
        """The tokens of new texts for a model, each with the end of sentence and not truncated."""
        ...


@runtime_checkable
class WritesText(Protocol):
    """Data that can decode generated tokens into text."""

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """The text of the tokens that a model generated for some sources."""
        ...
