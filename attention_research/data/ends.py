"""The end of sentence after texts of a tokenizer that does not write it (`characters`).

A decoded target needs an end, which the model learns to write. A text without boundaries has none (`text_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_research.data.tokens import TokenArray
from attention_research.data.wrapped_tokenizer import WrappedTokenizer
from attention_research.tokens import EOS


def are_written(tokenizer: Any) -> bool:
    """Whether a trained tokenizer writes the end of sentence itself."""
    return bool(tokenizer.encode([""])[0])


def added(tokens: TokenArray) -> TokenArray:
    """The sequences, each followed by the end of sentence.

    >>> [ids.tolist() for ids in added(TokenArray.join([[5, 4], []]))]
    [[5, 4, 2], [2]]
    """
    flat = np.insert(tokens.flat, tokens.offsets[1:], EOS)
    return TokenArray(flat, tokens.offsets + np.arange(len(tokens.offsets)))


class WithEnds(WrappedTokenizer):
    """A trained tokenizer that writes the end of sentence after each text and reads up to it."""

    @property
    def size(self) -> int:
        """The number of tokens, with the special ones."""
        return self.tokenizer.size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the end of sentence and without a beginning of sentence."""
        return [[*ids, EOS] for ids in self.tokenizer.encode(texts)]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence."""
        rows = [[int(token) for token in row] for row in tokens]
        return self.tokenizer.decode([row[: row.index(EOS)] if EOS in row else row for row in rows])

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The piece of each token, as the vocabulary writes it."""
        return self.tokenizer.pieces(tokens)
