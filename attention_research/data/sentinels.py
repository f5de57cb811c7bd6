"""A vocabulary with sentinels above it: tokens that mark removed parts of a text.

Raffel et al. 2020 (T5), section 3.1.4. The last of `size` tokens are sentinels, counted down from the top: <extra_id_0>
is size - 1, <extra_id_1> is size - 2. Ids between those of the vocabulary and the sentinels are unused.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from attention_research.data.wrapped_tokenizer import WrappedTokenizer
from attention_research.tokens import EOS

_MARK = re.compile(r"<extra_id_(\d+)>")


class WithSentinels(WrappedTokenizer):
    """A trained tokenizer that reads and writes <extra_id_0>, <extra_id_1>, ... as the `sentinels` last of `size`."""

    def __init__(self, tokenizer: Any, size: int, sentinels: int):
        super().__init__(tokenizer)
        self.size, self.sentinels = size, sentinels

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the end of sentence and without a beginning of sentence."""
        encoded = self.tokenizer.encode(list(texts))
        return [self._marked(text) if _MARK.search(text) else ids for text, ids in zip(texts, encoded, strict=True)]

    def _marked(self, text: str) -> list[int]:
        """The tokens of a text with sentinels; unknown sentinels are removed."""
        between, ids = _MARK.split(text), []
        for part, number in itertools.zip_longest(between[::2], between[1::2]):
            ids += [token for token in self.tokenizer.encode([part.strip()])[0] if token != EOS]
            ids += [self.size - 1 - int(number)] if number and int(number) < self.sentinels else []
        return [*ids, EOS]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence, with a space on either side of a sentinel."""
        return [" ".join(filter(None, self._texts(sequence))) for sequence in tokens]

    def _texts(self, sequence: Sequence[int]) -> Iterator[str]:
        ids = itertools.takewhile(lambda token: token != EOS, map(int, sequence))
        for marks, run in itertools.groupby(ids, self._is_sentinel):
            tokens = list(run)
            yield from map(self._named, tokens) if marks else self.tokenizer.decode([tokens])

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The piece of each token, as the vocabulary writes it; a sentinel by its name."""
        below = self.tokenizer.pieces(tokens)
        return [
            self._named(t) if self._is_sentinel(t) else piece for t, piece in zip(map(int, tokens), below, strict=True)
        ]

    def _is_sentinel(self, token: int) -> bool:
        return token >= self.size - self.sentinels

    def _named(self, token: int) -> str:
        return f"<extra_id_{self.size - 1 - token}>"
