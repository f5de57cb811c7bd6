"""Characters as tokens: every kind of character of the training text.

Layers with clusters of frequent and rare tokens (`adaptive_softmax`) need them in the order of their frequency.

Ids 0 to 3 are padding, beginning, end of sentence and unknown; the first character has id 4. A text is encoded without
an end of sentence, because it is one stream of characters; data of separate texts add it (`ends`). The vocabulary is
stored as a text of its characters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from attention_research.data import storage
from attention_research.data.words import NAMES
from attention_research.errors import ConfigError
from attention_research.signatures import Positive
from attention_research.tokens import UNKNOWN

#: The id of the first character.
FIRST = UNKNOWN + 1


class Characters:
    """A tokenizer of characters with the interface of `words.Words`.

    `order` is the order of their ids: by code point, or from the most to the least frequent.
    """

    def __init__(self, *, vocabulary_size: Positive, order: Literal["code_point", "frequency"] = "code_point"):
        self.vocabulary_size, self.order = vocabulary_size, order
        self.path: Path | None = None
        self._kinds, self.fingerprint = "", ""
        self._ids: dict[str, int] = {}

    def settings(self) -> dict:
        """What the tokens depend on, apart from the text."""
        given = {"kind": "characters", "vocabulary_size": self.vocabulary_size}
        return given if self.order == "code_point" else given | {"order": self.order}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> Characters:
        """Finds the characters of the texts. Raises `ConfigError` if they are too many."""
        del report
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(line)
        kinds = "".join(sorted(counts, key=lambda kind: (-counts[kind] if self.order == "frequency" else 0, kind)))
        if FIRST + len(kinds) > self.vocabulary_size:
            raise ConfigError(
                f"vocabulary_size: {len(kinds)} kinds of characters and {FIRST} special tokens are "
                f"{FIRST + len(kinds)}, more than {self.vocabulary_size}"
            )
        path = storage.folder("tokenizers") / f"{storage.content_hash(self.settings(), kinds)}.characters"
        with storage.written(path) as temporary:
            temporary.write_bytes(kinds.encode())
        return self.load(path)

    def load(self, path: Path) -> Characters:
        """Loads a vocabulary from its file."""
        stored = Path(path).read_bytes()
        self.path, self._kinds = Path(path), stored.decode()
        self._ids = {kind: id for id, kind in enumerate(self._kinds, start=FIRST)}
        self.fingerprint = hashlib.sha256(stored).hexdigest()[:20]
        return self

    @property
    def size(self) -> int:
        """The number of tokens, with the special ones."""
        return FIRST + len(self._kinds)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text's characters."""
        return [[self._ids.get(character, UNKNOWN) for character in text] for text in texts]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The characters of each sequence, without special tokens."""
        known = lambda token: FIRST <= token < self.size
        return ["".join(self._kinds[token - FIRST] for token in map(int, row) if known(token)) for row in tokens]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Each character as Python writes it in a string; the names of special tokens; other ids in brackets."""
        return [self._piece(int(token)) for token in tokens]

    def _piece(self, token: int) -> str:
        if token < FIRST:
            return NAMES[token]
        return repr(self._kinds[token - FIRST])[1:-1] if token < self.size else f"[{token}]"
