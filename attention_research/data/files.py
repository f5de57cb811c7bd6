"""Pairs of local text files: line i of one translates line i of the other.

The files are UTF-8, plain or gzip, with one sentence per line (`data.lines` defines a line). Runs of spaces become one
space. A pair with an empty line is left out.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from attention_research.data.kept import Kept
from attention_research.data.lines import read_content, read_lines
from attention_research.data.names import check_files
from attention_research.data.pairs import Pairs
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive

#: The files of a split; of pairs, the source file and the target file.
Paths = tuple[str, ...]
SPLITS = ("train", "validation", "test")
#: (whether the source has text, whether the target has) -> the reason for leaving the pair out
_EMPTY = {
    (True, True): None,
    (False, True): "empty source",
    (True, False): "empty target",
    (False, False): "both sides empty",
}


@dataclasses.dataclass(frozen=True)
class LocalFiles:
    """The files of each split; a subclass defines `text`, and which splits may have none."""

    train: Paths
    validation: Paths
    test: Paths

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing has to be built."""

    def stamp(self) -> str:
        """A string that changes with the path, size or time of a file. Raises `ConfigError` if a file is missing."""
        check_files({split: getattr(self, split) for split in self.splits()})
        paths = [Path(path).absolute() for split in self.splits() for path in getattr(self, split)]
        stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        return hashlib.sha256(repr(stats).encode()).hexdigest()

    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def key(self, split: str) -> str:
        """The setting that names the files of a split."""
        return f"config.data.{split}"

    def contents(self, split: str) -> list[tuple[str, str]]:
        """The path and the SHA-256 of each file of a split; for a compressed file, that of its content."""
        return [(path, hashlib.sha256(read_content(path)).hexdigest()) for path in getattr(self, split)]

    def kept(self, kept: Kept) -> Self:
        """The same choice with the path of each split when the run of `kept` began, or the path of now."""
        return dataclasses.replace(self, **{split: self._place(kept, split) for split in self.splits()})

    def _place(self, kept: Kept, split: str) -> Paths:
        """The files of a split. If both paths exist, the original ones are used unless they have changed. A split that
        has no files keeps none."""
        now, then = getattr(self, split), tuple(kept.files(split))
        if then == now or not (now and then) or not all(Path(path).is_file() for path in then):
            return now
        if not all(Path(path).is_file() for path in now):
            return then
        same = all(hashlib.sha256(read_content(path)).hexdigest() == sha256 for path, sha256 in kept.contents(split))
        return then if same else now


@dataclasses.dataclass(frozen=True)
class Files(LocalFiles):
    """The source and target file of each split, and the number of training pairs to read (None: all)."""

    train_examples: int | None = None

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sentences of a split, source and target, without the pairs in which a side is empty.

        Raises `ConfigError` if the files differ in length, have no pair, are missing, or are not UTF-8.
        """
        from attention_research.data.prepared import chosen

        sides = self._lines(split)
        pairs = [pair for pair in zip(*sides, strict=True) if all(pair)]
        if not pairs:
            files = " and ".join(getattr(self, split))
            raise ConfigError(f"{self.key(split)}: {files} have no line that has text in both")
        pairs = [pairs[index] for index in chosen(split, len(pairs), self.train_examples)]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def left_out(self) -> dict[str, dict[str, int]]:
        """Split -> reason -> the number of pairs left out."""
        found: dict[str, dict[str, int]] = {}
        for split in self.splits():
            reasons = (_EMPTY[bool(source), bool(target)] for source, target in zip(*self._lines(split), strict=True))
            counts = Counter(filter(None, reasons))
            found |= {split: dict(sorted(counts.items()))} if counts else {}
        return found

    def _lines(self, split: str) -> list[list[str]]:
        """The lines of the two sides of a split, equally many; a line without text is empty."""
        key, paths = self.key(split), getattr(self, split)
        check_files({split: paths})
        sides = [[" ".join(line.split()) for line in read_lines(path, f"{key}: {path}")] for path in paths]
        if len(sides[0]) != len(sides[1]):
            counts = " and ".join(f"{path} has {len(side):,} lines" for path, side in zip(paths, sides, strict=True))
            raise ConfigError(f"{key}: {counts}; line i of one has to translate line i of the other")
        return sides


class LocalText(Pairs):
    """Data whose `_choice` are `LocalFiles`: what a run keeps of them."""

    def take(self, kept: Kept, report: Callable[[str], None]) -> None:
        """As `Pairs.take`; a split is read from its path when the run began, or from the path in the config."""
        self._choice = self._choice.kept(kept)
        super().take(kept, report)

    def learned(self) -> dict[str, Any]:
        """The token counts of the training targets, from which a unigram model is made."""
        return {"target_counts": self.target_counts().tolist()}


class FileData(LocalText):
    """Local text files, their joint vocabulary, and their batches (see `Pairs`).

    `train`, `validation` and `test` are each the paths of the source file and of the target file, relative to the
    folder in which the command is run.
    """

    reads_pairs = True

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
        self.vocabulary_size = vocabulary_size
        self._choice = Files(placed(train), placed(validation), placed(test), train_examples)

    def _counted(self) -> np.ndarray:
        """[n] all target tokens of training, without a loop over batches."""
        targets = self._prepared.tokens["train"][1]
        return targets.flat[np.repeat(self._train_lengths.max(axis=1) <= self.max_length, targets.lengths)]


def placed(paths: Paths) -> Paths:
    """Absolute paths, so that a run can be used from any folder."""
    return tuple(str(Path(path).absolute()) for path in paths)
