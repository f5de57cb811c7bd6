"""What a model reads of a text that a user gives: its tokens, and what of the text is not among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from attention_research.tokens import UNKNOWN


@dataclasses.dataclass(frozen=True)
class Reading:
    """`tokens` are those that the model reads, the end of sentence included; `given` is how many the text has."""

    tokens: list[int]
    given: int

    @property
    def unknown(self) -> int:
        """How many of the tokens stand for what is not in the vocabulary."""
        return self.tokens.count(UNKNOWN)

    @property
    def cut(self) -> int:
        """How many tokens of the text the model does not read."""
        return self.given - len(self.tokens)

    @property
    def is_empty(self) -> bool:
        """Whether the text has no token but the end of sentence."""
        return self.given <= 1


def first(ids: list[int], most: int) -> list[int]:
    """The first tokens of a text that has more than `most`, and its last one, which ends the sentence."""
    return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]


def readings(trained: Any, texts: Sequence[str]) -> list[Reading]:
    """What a `Trained` reads of each text: of one that is too long the first tokens, of a prompt the last."""
    most, ids = longest(trained), trained.data.read(texts) if texts else []
    kept = (lambda one: one[-most:]) if trained.continues else (lambda one: first(one, most))
    return [Reading(kept(one), len(one)) for one in ids]


def longest(trained: Any) -> int:
    """The most tokens that are read of a text, the end of sentence included. A prompt leaves room for its continuation:
    `decoding.extra_length` tokens, or half of what the model can hold."""
    most: int = trained.config.resolved["data"]["max_length"]
    if not trained.continues:
        return most
    holds = trained.most_tokens()
    return min(most, holds - min(trained.decoding.extra_length, holds // 2))


def limit(trained: Any, reading: Reading) -> int:
    """The most tokens that are written of it, the end of sentence included; a continuation's prompt counts."""
    return min(len(reading.tokens) + trained.decoding.extra_length, trained.most_tokens())
