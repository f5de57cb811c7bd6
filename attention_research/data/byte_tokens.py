"""Bytes as tokens: the UTF-8 of a text, without a learned vocabulary (Text and Retrieval of the Long Range Arena).

Byte b has id b + 4. Ids 0 to 3 are padding, beginning, end of sentence and unknown; no byte is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from attention_research.data import storage
from attention_research.errors import ConfigError
from attention_research.signatures import Positive
from attention_research.tokens import EOS, UNKNOWN

#: The id of byte 0.
FIRST = UNKNOWN + 1
SIZE = FIRST + 256


def byte_ids(text: str) -> list[int]:
    """The ids of a text's bytes.

    >>> byte_ids("é")
    [199, 173]
    """
    return [byte + FIRST for byte in text.encode()]


class Bytes:
    """A tokenizer of bytes with the interface of `words.Words`; it does not depend on the text."""

    def __init__(self, *, vocabulary_size: Positive):
        self.vocabulary_size = vocabulary_size
        self.size, self.fingerprint = SIZE, "bytes"
        self.path: Path | None = None

    @property
    def vocabulary_size(self) -> int:
        """The number of ids that the tokens may use, at least `SIZE`. Data with sentinels reduce it."""
        return self._vocabulary_size

    @vocabulary_size.setter
    def vocabulary_size(self, size: int) -> None:
        if size < SIZE:
            raise ConfigError(f"vocabulary_size: {size} leaves no room for 256 bytes and {FIRST} others")
        self._vocabulary_size = size

    def settings(self) -> dict:
        """What the tokens depend on, apart from the text."""
        return {"kind": "bytes"}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> Bytes:
        """Learns nothing; writes an empty file in place of a vocabulary."""
        path = storage.folder("tokenizers") / "bytes"
        with storage.written(path) as temporary:
            temporary.touch()
        return self.load(path)

    def load(self, path: Path) -> Bytes:
        """Reads nothing."""
        self.path = Path(path)
        return self

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's bytes, with the end of sentence."""
        return [[*byte_ids(text), EOS] for text in texts]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence; invalid UTF-8 is replaced."""
        return [bytes(self._bytes(sequence)).decode(errors="replace") for sequence in tokens]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Each byte as its ASCII character if it is printable, otherwise in hexadecimal; other ids in brackets."""
        named = lambda byte: chr(byte) if 32 <= byte < 127 else f"<0x{byte:02X}>"
        return [named(token - FIRST) if FIRST <= token < SIZE else f"[{token}]" for token in map(int, tokens)]

    def _bytes(self, sequence: Sequence[int]) -> list[int]:
        ids = [int(token) for token in sequence]
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return [token - FIRST for token in ids if FIRST <= token < SIZE]
