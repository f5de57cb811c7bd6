"""A pair of text files on which a finished run is evaluated, instead of its own data."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.data.files import Files
from attention_research.data.kept import Kept
from attention_research.data.kept_text import KeptText
from attention_research.data.pairs import Pairs
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError

OPTION = "--files"
#: The split under which the files are scored.
SPLIT = "test"


class _Given(Files):
    """The same two files for every split."""

    def key(self, split: str) -> str:
        return OPTION


class GivenFiles(Pairs):
    """`source` and `target`, read with the vocabulary, lengths and batching of `data`, the data of a run."""

    def __init__(self, data: Any, source: str, target: str, run: Path):
        if not isinstance(data, Pairs) or not data.reads_pairs:
            raise ConfigError(f"{OPTION}: the run was not trained on pairs of sentences ({data.name})")
        for path in (source, target):
            if os.path.isdir(path):
                raise ConfigError(f"{OPTION}: {path}: this is a folder; give a text file")
            if not os.path.isfile(path):
                raise ConfigError(f"{OPTION}: no such file: {path}")
        paths = (source, target)
        super().__init__(" and ".join(paths), data.max_length, lambda: data.vocabulary, lambda: data.batching, None)
        self._data, self.vocabulary_size = data, getattr(data, "vocabulary_size", None)
        self._choice = _Given(paths, paths, paths)
        facts: dict[str, Any] = {"left_out": {}, "repeated": {}}
        self.kept = Kept(run, {"fingerprint": "", "splits": {}, "facts": facts}, data.vocabulary, {})

    @functools.cached_property
    def _prepared(self) -> Any:
        assert self.kept is not None
        return self._ended(KeptText(self._choice, self.kept, self._report))

    def _evaluated(self, split: str, examples: int | None) -> Any:
        """All pairs, longer ones too: `examples` is a setting for the run's own data."""
        sources, targets = self._prepared.tokens[split]
        return sources, targets, np.arange(len(sources))

    def omitted(self) -> dict[str, dict[str, int]]:
        """{the two files: {reason: the number of pairs left out}}."""
        counts = self._choice.left_out().get(SPLIT, {})
        return {self.name: counts} if counts else {}

    def shortened(self) -> dict[str, int]:
        """{the two files: the number of pairs that are truncated}."""
        counts = super().shortened()
        return {self.name: counts[SPLIT]} if SPLIT in counts else {}

    def target_counts(self) -> np.ndarray:
        """The counts of the run's training text."""
        return self._data.target_counts()

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """As `Pairs.target_sentences`; for training, those of the run."""
        return self._data.target_sentences(split) if split == "train" else super().target_sentences(split, examples)
