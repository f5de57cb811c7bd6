"""Tokenizes a user's text for a model, and reports unknown tokens and truncation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from attention_research.tokens import EOS, UNKNOWN


@dataclasses.dataclass(frozen=True)
class Reading:
    """The `tokens` that the model reads, including the end of sentence, and the number `given` in the whole text."""

    tokens: list[int]
    given: int

    @property
    def unknown(self) -> int:
        """The number of unknown tokens."""
        return self.tokens.count(UNKNOWN)

    @property
    def cut(self) -> int:
        """The number of tokens that the model does not read because the text is too long."""
        return self.given - len(self.tokens)

    @property
    def is_empty(self) -> bool:
        """Whether the text has no token except the end of sentence. The tokenizer `characters` writes no such end."""
        return self.given == self.tokens.count(EOS)


def first(ids: list[int], most: int) -> list[int]:
    """The tokens of a text, truncated to `most`. The last token, which ends the sentence, is kept.

    >>> first([7, 8, 9, 5, 2], 3)
    [7, 8, 2]
    """
    return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]


def readings(trained: Any, texts: Sequence[str]) -> list[Reading]:
    """The tokens that a `Trained` reads of each text. Of a text that is too long it reads the first tokens, and of a
    prompt the last ones."""
    most, ids = longest(trained), trained.data.read(texts) if texts else []
    kept = (lambda one: one[-most:]) if trained.continues else (lambda one: first(one, most))
    return [Reading(kept(one), len(one)) for one in ids]


def longest(trained: Any) -> int:
    """The maximum number of tokens that are read of a text, including the end of sentence.

    A prompt leaves room for its continuation: `decoding.extra_length` tokens, but at most half of the model's maximum
    length.
    """
    most: int = trained.config.resolved["data"]["max_length"]
    if not trained.continues:
        return most
    holds = trained.most_tokens()
    return min(most, holds - min(trained.decoding.extra_length, holds // 2))


def limit(trained: Any, reading: Reading) -> int:
    """The maximum number of tokens in the output for this text, including the end of sentence. A continuation includes
    its prompt."""
    return min(len(reading.tokens) + trained.decoding.extra_length, trained.most_tokens())
