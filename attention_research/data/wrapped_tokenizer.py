"""The base of tokenizers that encode and decode with another one: the vocabulary stays that of the other tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class WrappedTokenizer:
    """A tokenizer over a trained `tokenizer`, whose file and hash it has.

    A subclass defines `size`, `encode`, `decode` and `pieces`.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer

    @property
    def path(self) -> Path:
        """The file of the wrapped tokenizer's vocabulary."""
        return self.tokenizer.path

    @property
    def fingerprint(self) -> str:
        """A hash of the wrapped tokenizer's vocabulary."""
        return self.tokenizer.fingerprint
