"""Local text files for language models, in random windows without boundaries (see `windows`).

The files are UTF-8, plain or gzip. The files of a split are joined in their order. Line ends become a line feed, and
the last line gets one if it has none. Nothing else is changed.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from typing import Self

from attention_research.data.files import LocalFiles, LocalText, placed
from attention_research.data.lines import read_lines
from attention_research.data.names import check_files
from attention_research.data.windows import RandomWindows
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive
from attention_research.tokens import UNKNOWN

#: A split without files is one part of this many of the training text.
PARTS = 20


@dataclasses.dataclass(frozen=True)
class WholeFiles(LocalFiles):
    """The files of each split. `validation` and `test` may have none and are then the end of the training text."""

    def contents(self, split: str) -> list[tuple[str, str]]:
        """As `LocalFiles.contents`; for a part of the training text, the training files."""
        return super().contents(split if getattr(self, split) else "train")

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """([the text of a split], []). Raises `ConfigError` if it is empty, is missing, or is not UTF-8."""
        cut = [name for name in ("validation", "test") if not getattr(self, name)]
        if split in ("train", *cut):
            whole, trained = self._joined("train"), PARTS - len(cut)
            first, parts = (0, trained) if split == "train" else (trained + cut.index(split), 1)
            text = whole[len(whole) * first // PARTS : len(whole) * (first + parts) // PARTS]
        else:
            text = self._joined(split)
        if not text:
            raise ConfigError(f"{self.key(split)}: no text in {' and '.join(getattr(self, split) or self.train)}")
        return [text], []

    def vocabulary_text(self, texts: Mapping[str, tuple[list[str], list[str]]]) -> list[str]:
        """The lines of the training text, with their ends."""
        return [line for text in texts["train"][0] for line in io.StringIO(text, newline="\n")]

    def _joined(self, split: str) -> str:
        key, paths = self.key(split), getattr(self, split)
        check_files({split: paths})
        return "".join(f"{line}\n" for path in paths for line in read_lines(path, f"{key}: {path}"))


class TextFiles(LocalText, RandomWindows):
    """Local text files, their vocabulary, and windows of `max_length` tokens.

    `train`, `validation` and `test` are each one or several paths, relative to the folder in which the command is run.
    Without `validation` or `test`, the last twentieth of the training text takes its place; without both, the last is
    the test text, and the one before it the validation text. The tokenizer `words` drops spaces and ends of lines.
    """

    def __init__(
        self,
        *,
        train: tuple[str, ...],
        validation: tuple[str, ...] = (),
        test: tuple[str, ...] = (),
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "characters",
    ):
        if not train:
            raise ConfigError("config.data.train: expected at least one file")
        super().__init__(" and ".join(train), max_length, vocabulary_size, tokenizer)
        self._choice = WholeFiles(placed(train), placed(validation), placed(test))

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """As `Pairs.prepare`. Raises `ConfigError` if ends of lines would be unknown tokens, as in SentencePiece."""
        super().prepare(progress)
        if UNKNOWN in self.tokenizer.encode(["\n"])[0] and UNKNOWN in self.stream("train"):
            raise ConfigError(
                "config.data.tokenizer: this vocabulary has no token for the end of a line; "
                "use the kind characters, bytes, or hugging_face"
            )
        return self
