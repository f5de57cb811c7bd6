"""A vocabulary of whole words: the parts of the training text between spaces, the most frequent first.

Token ids as in `tokenizer.SentencePiece`: padding 0, beginning of sentence 1, end of sentence 2, unknown 3. The
vocabulary is stored as text with one token per line; line i has id i + 4.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from attention_research.data import storage
from attention_research.errors import ConfigError
from attention_research.signatures import Positive
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

#: The names of the special tokens, as in SentencePiece.
NAMES = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNKNOWN: "<unk>"}
_MARK = "\N{LOWER ONE EIGHTH BLOCK}"  # before a word, as in SentencePiece's pieces


def most_frequent(words: Iterable[str] | Mapping[str, int], number: int) -> list[str]:
    """At most `number` distinct words, or keys of counts, the most frequent first; ties in alphabetical order."""
    counts = Counter(words)
    return sorted(counts, key=lambda word: (-counts[word], word))[: max(number, 0)]


class Words:
    """The most frequent words that occur at least `minimum_count` times in the text; with the four special tokens, at
    most `vocabulary_size`. Ties are in alphabetical order. All other words are unknown.

    Both languages of a text share the vocabulary. An unknown token is decoded as <unk>, so that the number of words is
    kept.
    """

    def __init__(self, *, minimum_count: Positive = 1, vocabulary_size: Positive):
        self.minimum_count = minimum_count
        self.vocabulary_size = vocabulary_size
        self.path: Path | None = None
        self._words: tuple[str, ...] = ()
        self._ids: dict[str, int] = {}
        self._fingerprint = ""

    def settings(self) -> dict:
        """What the tokens depend on, apart from the text."""
        return {"kind": "words", "minimum_count": self.minimum_count, "vocabulary_size": self.vocabulary_size}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> "Words":
        """Counts the words of the lines, or loads the vocabulary of the same lines and settings.

        Raises `ConfigError` if the vocabulary would be empty.
        """
        key = storage.content_hash(self.settings(), lines)
        path = storage.folder("tokenizers") / f"{key}.words"
        with storage.locked(f"tokenizer-{key}"):
            if not path.exists():
                report(f"counting words for a vocabulary of at most {self.vocabulary_size:,}")
                words = self._chosen(lines)
                with storage.written(path) as temporary:
                    temporary.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        return self.load(path)

    def _chosen(self, lines: Iterable[str]) -> list[str]:
        counts = Counter(word for line in lines for word in line.split())
        frequent = {word: count for word, count in counts.items() if count >= self.minimum_count}
        chosen = most_frequent(frequent, self.vocabulary_size - len(NAMES))
        if not chosen:
            raise ConfigError(
                f"vocabulary_size: {self.vocabulary_size} tokens, {len(NAMES)} of them special, of a text with "
                f"{len(counts):,} words, {len(frequent):,} of them at least {self.minimum_count} times: none is left"
            )
        return chosen

    def load(self, path: Path) -> "Words":
        """Loads a vocabulary from its file."""
        stored = Path(path).read_bytes()
        self.path = Path(path)
        self._words = tuple(stored.decode(errors="replace").split("\n")[:-1])
        self._ids = {word: index + len(NAMES) for index, word in enumerate(self._words)}
        self._fingerprint = hashlib.sha256(stored).hexdigest()[:20]
        return self

    @property
    def fingerprint(self) -> str:
        """A hash of the stored vocabulary, 20 hexadecimal digits."""
        return self._fingerprint

    @property
    def size(self) -> int:
        """The number of tokens, with the special ones; at most `vocabulary_size`."""
        return len(NAMES) + len(self._words)

    @property
    def words(self) -> tuple[str, ...]:
        """The words in the order of their ids, without the special tokens."""
        return self._words

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the end of sentence and without a beginning of sentence."""
        return [[*(self._ids.get(word, UNKNOWN) for word in text.split()), EOS] for text in texts]

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence, without padding and beginnings of sentence."""
        return [" ".join(self._named(token) for token in self._visible(sequence)) for sequence in tokens]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Each token as a SentencePiece piece, with a mark before a word; for ids beyond `size`, the id in brackets."""
        named = lambda token: f"{_MARK}{self._named(token)}" if token >= len(NAMES) else NAMES[token]
        return [named(int(token)) if token < self.size else f"[{token}]" for token in tokens]

    def _named(self, token: int) -> str:
        return NAMES[token] if token < len(NAMES) else self._words[token - len(NAMES)]

    def _visible(self, sequence: Sequence[int]) -> list[int]:
        """Only ids that can be written: the vocabulary of a model may be larger than that of the text (`size`)."""
        ids = [int(token) for token in sequence]
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return [token for token in ids if UNKNOWN <= token < self.size]
