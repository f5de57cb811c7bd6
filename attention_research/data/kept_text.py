"""The text of a run with a kept vocabulary. Each split is read, checked and tokenised on demand.

A run can therefore be evaluated without its training text, and a changed text is always detected.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attention_research.data import prepared, storage
from attention_research.data.kept import HasFiles, Kept, digest
from attention_research.data.tokens import BySplit, TokenArray
from attention_research.errors import ConfigError, RunError

SIDES = ("source", "target")


class KeptText:
    """The data of `kept`, with the interface of `prepared.Prepared`."""

    def __init__(self, choice: Any, kept: Kept, report: Callable[[str], None]):
        self.choice, self.kept, self.report = choice, kept, report
        self.tokenizer = kept.tokenizer
        self.fingerprint: str = kept.document["fingerprint"]
        self.facts = kept.document["facts"]
        self.splits = kept.splits
        self.tokens = BySplit(tuple(kept.splits) or choice.splits(), self._tokens)
        self._whole: prepared.Prepared | None = None
        self._looked = False

    def open(self, *splits: str) -> None:
        """Checks splits against those that the run began with. Raises ConfigError if one has changed."""
        for split in splits:
            if split in self.tokens:
                _ = self.tokens[split]

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The text of a split. Raises ConfigError if it is not the one that the run began with."""
        self.choice.prepare(self.report)
        sides = self.choice.text(split)
        if split in self.splits:
            contents = self.choice.contents(split) if isinstance(self.choice, HasFiles) else ()
            self.kept.check(split, digest(self.choice, split, sides), contents)
        return sides

    def _tokens(self, split: str) -> tuple[TokenArray, TokenArray]:
        whole = self._found() if split in self.splits else None
        if whole is not None and whole.splits.get(split) == self.splits[split]:
            return whole.tokens[split]
        return self._tokenised(split)

    def _found(self) -> prepared.Prepared | None:
        """The token arrays of all splits, if they are in the data folder."""
        if not self._looked:
            with suppress(ConfigError, RunError, OSError):
                self._whole = prepared.found(self.choice, self.tokenizer)
            self._looked = True
        return self._whole

    def _tokenised(self, split: str) -> tuple[TokenArray, TokenArray]:
        sides = self.text(split)
        key = storage.content_hash([1, split, self.tokenizer.fingerprint], *sides)
        folder = storage.folder("tokens") / key
        with storage.locked(f"tokens-{key}"):
            if not folder.exists():
                self.report(f"tokenising {len(sides[0]):,} examples of {split}")
                with storage.written(folder) as temporary:
                    temporary.mkdir()
                    _save(temporary, self.tokenizer, sides)
        source, target = (TokenArray.load(folder / side) for side in SIDES)
        return source, target


def _save(folder: Path, tokenizer: Any, sides: tuple[list[str], list[str]]) -> None:
    for side, lines in zip(SIDES, sides, strict=True):
        TokenArray.join(tokenizer.encode(lines)).save(folder / side)
