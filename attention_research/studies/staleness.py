"""Whether a finished trial still is what its study would run now: current, stale, or not comparable.

>>> Stale("the train program changed").note
'stale: the train program changed'
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from attention_research.studies.trials import Trial


@dataclasses.dataclass(frozen=True)
class State:
    """What a trial's result is, compared with what would run now. `reason` is a phrase, for a note."""

    name: ClassVar[str]
    reason: str = ""

    @property
    def note(self) -> str:
        """The state in words."""
        return f"{self.name}: {self.reason}" if self.reason else self.name


class Current(State):
    """The same program, data and config would run now."""

    name = "current"


class Stale(State):
    """Another program, other data or another config would run now."""

    name = "stale"


class NotComparable(State):
    """Nobody can tell: the record does not say what it ran, or was made with another version of JAX."""

    name = "not comparable"


def state_of(trial: Trial, result: Mapping[str, Any]) -> State:
    """The state of the finished result of a planned trial."""
    same = result.get("fingerprint") == trial.fingerprint
    return Current() if same else Stale("made by other sources")
