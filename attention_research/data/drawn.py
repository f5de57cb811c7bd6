"""Examples of one width that code draws by a seed, all in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

from attention_research.data import storage
from attention_research.data.in_memory import InMemory


class Drawn(InMemory):
    """The base class of drawn examples. `settings` and `numbers`, the numbers of examples, determine the data."""

    settings: dict[str, Any]

    def prepare(self, progress: Callable[[str], None] | None = None) -> Self:
        """Draws the first split; later calls reuse it."""
        del progress
        self.arrays(next(iter(self.numbers)))
        return self

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the settings that determine the examples, and of the last split."""
        last = [array.tobytes().hex() for _, array in sorted(self.arrays([*self.numbers][-1]).items())]
        return storage.content_hash([self.name, self.numbers, self.settings], last)
