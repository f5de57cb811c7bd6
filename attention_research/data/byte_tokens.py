"""Bytes as tokens: the UTF-8 of a text, without a vocabulary to learn (the Long Range Arena's Text and Retrieval).

A byte b is id b + 4, behind padding 0, beginning 1, end of sentence 2 and unknown 3, which no byte is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from attention_research.data import storage
from attention_research.errors import ConfigError
from attention_research.registry import Positive
from attention_research.tokens import EOS, UNKNOWN

#: Ids before those of bytes.
FIRST = UNKNOWN + 1
SIZE = FIRST + 256


def byte_ids(text: str) -> list[int]:
    """The ids of a text's bytes.

    >>> byte_ids("é")
    [199, 173]
    """
    return [byte + FIRST for byte in text.encode()]


class Bytes:
    """The interface of `words.Words`; nothing depends on the text."""

    def __init__(self, *, vocabulary_size: Positive):
        if vocabulary_size < SIZE:
            raise ConfigError(f"vocabulary_size: {vocabulary_size} leaves no room for 256 bytes and {FIRST} others")
        self.size, self.fingerprint = SIZE, "bytes"
        self.path: Path | None = None

    def settings(self) -> dict:
        """What the tokens depend on beside the text."""
        return {"kind": "bytes"}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> Bytes:
        """Nothing to learn; the empty file that says so is where a vocabulary would be."""
        path = storage.folder("tokenizers") / "bytes"
        with storage.written(path) as temporary:
            temporary.touch()
        return self.load(path)

    def load(self, path: Path) -> Bytes:
        """Nothing to read."""
        self.path = Path(path)
        return self

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The bytes of each text, with the end of sentence."""
        return [[*byte_ids(text), EOS] for text in texts]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence; what is no UTF-8 is replaced."""
        return [bytes(self._bytes(sequence)).decode(errors="replace") for sequence in tokens]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Each byte as its character where it is one, else in hexadecimal; the others by number in brackets."""
        named = lambda byte: chr(byte) if 32 <= byte < 127 else f"<0x{byte:02X}>"
        return [named(token - FIRST) if FIRST <= token < SIZE else f"[{token}]" for token in map(int, tokens)]

    def _bytes(self, sequence: Sequence[int]) -> list[int]:
        ids = [int(token) for token in sequence]
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return [token - FIRST for token in ids if FIRST <= token < SIZE]
