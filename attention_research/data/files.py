"""Pairs of local text files: line i of one translates line i of the other.

UTF-8, plain or gzip, one sentence a line (`data.lines` says what a line is); runs of spaces become one. A pair of which
a line is empty is left out.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from attention_research.data.lines import read_lines
from attention_research.data.names import check_files
from attention_research.data.pairs import Pairs
from attention_research.errors import ConfigError
from attention_research.registry import Child, Positive

#: source file, target file
Paths = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Files:
    """The source and the target file of each split, and how many training pairs are read (None: all)."""

    train: Paths
    validation: Paths
    test: Paths
    train_examples: int | None = None

    def prepare(self, report: Callable[[str], None]) -> None:
        """Raise `ConfigError` where a file is missing: nothing has to be built."""
        check_files({split: getattr(self, split) for split in self.splits()})

    def stamp(self) -> str:
        """Changes whenever a file's place, size or time does."""
        paths = [Path(path).absolute() for split in self.splits() for path in getattr(self, split)]
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        return hashlib.sha256(repr(stats).encode()).hexdigest()

    def splits(self) -> tuple[str, ...]:
        return ("train", "validation", "test")

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sentences of a split, source and target, without the pairs that miss a side.

        Raises `ConfigError` where the files differ in length, have no pair, are missing, or are not UTF-8.
        """
        from attention_research.data.prepared import chosen

        self.prepare(lambda line: None)
        key, paths = f"config.data.{split}", getattr(self, split)
        sides = [[" ".join(line.split()) for line in read_lines(path, f"{key}: {path}")] for path in paths]
        if len(sides[0]) != len(sides[1]):
            counts = " and ".join(f"{path} has {len(side):,} lines" for path, side in zip(paths, sides, strict=True))
            raise ConfigError(f"{key}: {counts}; line i of one has to translate line i of the other")
        pairs = [pair for pair in zip(*sides, strict=True) if all(pair)]
        if not pairs:
            raise ConfigError(f"{key}: {' and '.join(paths)} have no line that has text in both")
        pairs = [pairs[index] for index in chosen(split, len(pairs), self.train_examples)]
        return [source for source, _ in pairs], [target for _, target in pairs]


class FileData(Pairs):
    """Local text files, their joint vocabulary, and their batches (see `Pairs`).

    `train`, `validation` and `test` are each the path of the source file and that of the target file, from the folder
    in which the command is run.
    """

    def __init__(
        self,
        *,
        train: tuple[str, str],
        validation: tuple[str, str],
        test: tuple[str, str],
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "sentencepiece",
        batching: Child["batching"] = "buckets",
        train_examples: Positive | None = None,
    ):
        super().__init__(" and ".join(train), max_length, tokenizer, batching, train_examples)
        self.files, self.vocabulary_size = Files(train, validation, test, train_examples), vocabulary_size

    @functools.cached_property
    def _choice(self) -> Files:
        return self.files
