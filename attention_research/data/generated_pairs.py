"""Generated pairs of texts: what the settings of every such task have in common (see `prepared.prepare`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class GeneratedPairs:
    """The base of the frozen dataclasses with the settings of a generated task. The text depends on them alone."""

    def pairs(self, split: str) -> Sequence[tuple[str, str]]:
        """(source, target) of each example of a split, the same in every call."""
        raise NotImplementedError

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing has to be built."""

    def stamp(self) -> str:
        """The text is a function of the settings."""
        return "1"

    def splits(self) -> tuple[str, ...]:
        return ("train", "validation", "test")

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sources and the targets of a split."""
        pairs = self.pairs(split)
        return [source for source, _ in pairs], [target for _, target in pairs]
