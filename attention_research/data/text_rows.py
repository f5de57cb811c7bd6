"""Rows of a text without boundaries: no text is left out or truncated, and a split is scored row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from attention_research.data.pairs import Pairs
from attention_research.data.protocol import Batch
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError


class TextRows(Pairs):
    """The base class. A subclass defines `_rows` and `_taken`."""

    #: The seed of the permutation from which `examples` of a split are chosen for evaluation.
    evaluation_seed: ClassVar[int]

    @property
    def tokenizer(self) -> Any:
        """The trained vocabulary. The texts have no ends but those that it writes."""
        return self.vocabulary

    def _ended(self, prepared: Any) -> Any:
        return prepared

    def _rows(self, split: str) -> int:
        """The number of rows of a split in evaluation."""
        raise NotImplementedError

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        """The batch of these rows of a split, with filling rows."""
        raise NotImplementedError

    def _texts(self, split: str) -> TokenArray:
        """The tokens of the texts of a split. Raises ConfigError for an unknown split."""
        if split not in self._prepared.tokens:
            raise ConfigError(f"{self.name} has no split {split!r}; it has {', '.join(self._prepared.tokens)}")
        return self._prepared.tokens[split][0]

    def sizes(self) -> dict[str, int]:
        """The number of rows of each split in evaluation."""
        return {split: self._rows(split) for split in self._prepared.tokens}

    @property
    def dropped(self) -> int:
        """0: no text is left out."""
        return 0

    def shortened(self) -> dict[str, int]:
        """Empty: no text is truncated."""
        return {}

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(row numbers [B], batch) over a split in its order, or over `examples` rows of a fixed permutation, in their
        order. Row i of a batch is row ids[i] of the split; -1 marks rows that only fill the last batch."""
        ids = np.arange(self._rows(split))
        if examples is not None:
            ids = np.sort(np.random.default_rng(self.evaluation_seed).permutation(ids)[:examples])
        for start in range(0, len(ids), batch_size):
            some = ids[start : start + batch_size]
            yield (
                np.pad(some, (0, batch_size - len(some)), constant_values=-1),
                self._taken(split, some, batch_size),
            )
