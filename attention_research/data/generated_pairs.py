"""Generated pairs of texts: what the settings of every such task have in common (see `prepared.prepare`)."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path


class GeneratedPairs:
    """The base of the frozen dataclasses with the settings of a generated task. The text depends on them, and on the
    module of the class."""

    def pairs(self, split: str) -> Sequence[tuple[str, str]]:
        """(source, target) of each example of a split, the same in every call."""
        raise NotImplementedError

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing has to be built."""

    def stamp(self) -> str:
        """A hash of the source file of the class, so that a changed generator does not use the text of the old one."""
        return _hash_of(inspect.getfile(type(self)))

    def splits(self) -> tuple[str, ...]:
        return ("train", "validation", "test")

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sources and the targets of a split."""
        pairs = self.pairs(split)
        return [source for source, _ in pairs], [target for _, target in pairs]


@functools.cache
def _hash_of(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
