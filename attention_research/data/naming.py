"""Naming functions from their bodies (`naming_source`); sub-tokens outside the vocabulary have ids, too.

A batch is {"source" [B S], "target" [B T]}, int32, as in `Pairs`; T is at most `NAME_TOKENS`. The first
`vocabulary_size` ids are the special tokens and the most frequent sub-tokens of the training split. Every other
sub-token has an id from vocabulary_size + max_length on, so that a model can find a target sub-token in the source. A
model embeds all of them as the unknown word (models.copying.extended), and writes the id vocabulary_size + s for
"copied from position s"; `SubTokens.decode` resolves it with the source. For a model without copying, set `extended` to
false: such sub-tokens then become the unknown word.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from attention_research.data import naming_source, storage
from attention_research.data.pairs import Pairs
from attention_research.data.prepared import chosen
from attention_research.data.protocol import Batch
from attention_research.data.tokens import TokenArray
from attention_research.data.words import most_frequent
from attention_research.signatures import Child, Positive
from attention_research.tokens import EOS, UNKNOWN

#: The largest number of tokens of a name, with the end of sentence.
NAME_TOKENS = naming_source.MAX_NAME + 1
SPECIAL = ("<padding>", "<beginning>", "<end>", "<unknown>")


@dataclasses.dataclass(frozen=True)
class Functions:
    """The functions to read: of a library (a folder) and a Python version; the number for training (None: all)."""

    library: str
    python: str
    train_examples: int | None = None

    def prepare(self, report: Callable[[str], None]) -> None:
        """Nothing has to be built."""

    def stamp(self) -> str:
        """A string that changes with a file of the library, or with `naming_source`."""
        stats = [
            (str(path), path.stat().st_size, path.stat().st_mtime_ns)
            for path in [Path(naming_source.__file__), *naming_source.files(Path(self.library))]
        ]
        return hashlib.sha256(repr(stats).encode()).hexdigest()

    def splits(self) -> tuple[str, ...]:
        return ("train", "validation", "test")

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The bodies and the names of the functions of a split."""
        functions = self.functions(split)
        return [one.body for one in functions], [one.name for one in functions]

    def functions(self, split: str) -> list[naming_source.Function]:
        """The functions of a split."""
        functions = _read(self.library, self.stamp())[0][split]
        return [functions[index] for index in chosen(split, len(functions), self.train_examples)]


@functools.lru_cache(maxsize=1)
def _read(library: str, stamp: str) -> tuple[dict[str, list[naming_source.Function]], Counter[str]]:
    """The result of `naming_source.read`, cached in a file, because parsing the library takes about 15 seconds."""
    path = storage.folder("functions") / f"{stamp[:20]}.json"
    if not path.exists():
        found, left = naming_source.read(Path(library))
        with storage.written(path) as temporary:
            temporary.write_text(json.dumps([found, left]), encoding="utf-8")
    found, left = json.loads(path.read_text(encoding="utf-8"))
    return {split: [naming_source.Function(*one) for one in of] for split, of in found.items()}, Counter(left)


class SubTokens:
    """Sub-token <-> id, for text split at spaces; the interface is that of `tokenizer.SentencePiece`."""

    def __init__(self, *, vocabulary_size: int, max_length: int, others: Callable[[], Iterable[str]]):
        self.vocabulary_size, self.max_length, self._others = vocabulary_size, max_length, others
        self.path: Path | None = None
        self._fingerprint = ""
        self._known: list[str] = []
        self._rest: list[str] = []
        self._ids: dict[str, int] = {}

    def settings(self) -> dict:
        """What the ids depend on, apart from the text."""
        return {"kind": "sub_tokens", "vocabulary_size": self.vocabulary_size, "max_length": self.max_length}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> SubTokens:
        """Puts the most frequent sub-tokens of the lines into the vocabulary; all others, also of `others`, get an
        id."""
        known = most_frequent((word for line in lines for word in line.split()), self.vocabulary_size - len(SPECIAL))
        rest = sorted({word for line in [*lines, *self._others()] for word in line.split()}.difference(known))
        text = json.dumps({"known": known, "rest": rest})
        path = storage.folder("tokenizers") / f"{storage.content_hash(self.settings(), [text])}.json"
        report(f"{len(known):,} of {len(known) + len(rest):,} sub-tokens are in the vocabulary")
        if not path.exists():
            with storage.written(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return self.load(path)

    def load(self, path: Path) -> SubTokens:
        """Reads the ids from their file."""
        text = path.read_text(encoding="utf-8")
        words = json.loads(text)
        self._fingerprint = storage.content_hash(self.settings(), [text])
        self.path, self._known, self._rest = path, words["known"], words["rest"]
        first = self.vocabulary_size + self.max_length
        self._ids = {word: len(SPECIAL) + i for i, word in enumerate(self._known)}
        self._ids |= {word: first + i for i, word in enumerate(self._rest)}
        return self

    @property
    def fingerprint(self) -> str:
        """A hash of the ids."""
        return self._fingerprint

    @property
    def size(self) -> int:
        """The number of sub-tokens in the vocabulary, with the special ones; at most `vocabulary_size`."""
        return len(SPECIAL) + len(self._known)

    @functools.cached_property
    def known(self) -> frozenset[str]:
        """The sub-tokens of the vocabulary."""
        return frozenset(self._known)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, with the end of sentence. A new sub-token gets an id for this text only."""
        return [self._encoded(text.split()) for text in texts]

    def _encoded(self, words: Sequence[str]) -> list[int]:
        free = self.vocabulary_size + self.max_length + len(self._rest)
        new = {word: free + number for number, word in enumerate(dict.fromkeys(words)) if word not in self._ids}
        return [*(self._ids.get(word) or new[word] for word in words), EOS]

    def decode(self, tokens: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None = None) -> list[str]:
        """The text of each sequence up to its first end of sentence; `sources` are the ids of the sources.

        Without `sources`, a token that is copied from a position becomes `<unknown>`.
        """
        sources = [()] * len(tokens) if sources is None else sources
        return self.written(tokens, [self.pieces(source) for source in sources])

    def written(self, tokens: Sequence[Sequence[int]], words: Sequence[Sequence[str]]) -> list[str]:
        """As `decode`, but given the sub-tokens of each source, so that one without an id can be copied, too."""
        texts = []
        for sequence, source in zip(tokens, words, strict=True):
            ids = [int(token) for token in sequence]
            ids = ids[: ids.index(EOS)] if EOS in ids else ids
            texts.append(" ".join(self._written(token, source) for token in ids if token >= UNKNOWN))
        return texts

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token."""
        return [self._word(int(token)) for token in tokens]

    def _written(self, token: int, source: Sequence[str]) -> str:
        position = token - self.vocabulary_size
        return source[position] if 0 <= position < len(source) else self._word(token)

    def _word(self, token: int) -> str:
        if token < self.size:
            return SPECIAL[token] if token < len(SPECIAL) else self._known[token - len(SPECIAL)]
        rest = token - self.vocabulary_size - self.max_length
        return self._rest[rest] if 0 <= rest < len(self._rest) else SPECIAL[UNKNOWN]


class NamingData(Pairs):
    """The functions of the standard library, their sub-tokens and batches (see the module docstring, and `Pairs`).

    A training function with more than `max_length` sub-tokens is dropped; one of validation or test is truncated.
    """

    def __init__(
        self,
        *,
        max_length: Positive,
        vocabulary_size: Positive,
        extended: bool = True,
        batching: Child["batching"] = "buckets",
        train_examples: Positive | None = None,
    ):
        name = f"standard library of Python {sys.version.split()[0]}"
        super().__init__(name, max_length, self._sub_tokens, batching, train_examples)
        self.vocabulary_size, self.extended = vocabulary_size, extended

    def _sub_tokens(self) -> SubTokens:
        def held_out() -> Iterator[str]:
            for split in ("validation", "test"):
                for side in self._choice.text(split):
                    yield from side

        return SubTokens(vocabulary_size=self.vocabulary_size, max_length=self.max_length, others=held_out)

    @functools.cached_property
    def _choice(self) -> Functions:
        return Functions(str(naming_source.library()), sys.version, self.train_examples)

    def read(self, sources: Sequence[str]) -> list[list[int]]:
        """As `Pairs.read`; without `extended`, sub-tokens outside the vocabulary become the unknown word."""
        plain = lambda ids: [token if token < self.vocabulary_size else UNKNOWN for token in ids]
        return [ids if self.extended else plain(ids) for ids in super().read(sources)]

    def written(self, tokens: Sequence[Sequence[int]], sources: Sequence[str]) -> list[str]:
        """As `Pairs.written`; a copied token becomes the sub-token in the text of the source."""
        return self.tokenizer.written(tokens, [source.split() for source in sources])

    def functions(self, split: str) -> list[naming_source.Function]:
        """The functions of a split, indexed by example id."""
        return self._choice.functions(split)

    def omitted(self) -> dict[str, dict[str, int]]:
        """As `Pairs.omitted`, with the functions of the library that are not examples."""
        return {**super().omitted(), "library": self.left_out()}

    def left_out(self) -> dict[str, int]:
        """Reason -> the number of functions that are not examples."""
        return dict(_read(self._choice.library, self._choice.stamp())[1])

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step as in `Pairs`, with targets of at most `NAME_TOKENS` tokens."""
        return self._cut(super().batch_at(seed, step, batch_size, host, hosts))

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(example ids [B], batch) over a split as in `Pairs`, with targets of at most `NAME_TOKENS` tokens."""
        for ids, batch in super().evaluation_batches(split, batch_size, examples):
            yield ids, self._cut(batch)

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; reads nothing."""
        cut = lambda name, shape: (shape[0], min(shape[1], NAME_TOKENS)) if name == "target" else shape
        return [{name: cut(name, shape) for name, shape in one.items()} for one in super().train_shapes(batch_size)]

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The target tokens of a split, with the unknown word for tokens outside the vocabulary."""
        found = super().target_sentences(split, examples)
        return TokenArray(np.where(found.flat < self.vocabulary_size, found.flat, UNKNOWN), found.offsets)

    def _cut(self, batch: Batch) -> Batch:
        batch = {**batch, "target": batch["target"][:, :NAME_TOKENS]}
        if self.extended:
            return batch
        return {name: np.where(x < self.vocabulary_size, x, np.int32(UNKNOWN)) for name, x in batch.items()}
