"""The tokenised pairs of a data set in the cache: text -> vocabulary -> token arrays, each stored under its content.

tokenizers/HASH.model     by the training text and the tokenizer's settings
tokens/HASH/              by the text of every split and the vocabulary
index/HASH.json           by the files of the data set (names, sizes, times): where the above are, without reading
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.data import sources, storage
from attention_research.data.tokens import TokenArray

#: Low-data studies take the first examples of one fixed permutation, so that the smaller set is in the larger one.
SUBSET_SEED = 20170612


def chosen(split: str, size: int, train_examples: int | None) -> np.ndarray:
    """The examples of a split that are read: all, or the first `train_examples` of the fixed permutation, in order."""
    if split != "train" or train_examples is None:
        return np.arange(size)
    return np.sort(np.random.default_rng(SUBSET_SEED).permutation(size)[:train_examples])


@dataclasses.dataclass(frozen=True)
class Named:
    """A data set of `sources` by its name, as `prepare` asks for it; what is read of it (`text`) is a subclass's."""

    name: str

    def prepare(self, report: Callable[[str], None]) -> None:
        """Build what is missing before the text can be read."""
        sources.prepare(self.name, report)

    def stamp(self) -> str | None:
        """Changes whenever the text may have changed; None where that cannot be told without reading it."""
        return sources.stamp(self.name)

    def splits(self) -> tuple[str, ...]:
        return sources.split_names(self.name)


@dataclasses.dataclass(frozen=True)
class Choice(Named):
    """What of a data set is read: its name, the two languages, and how many training examples (None: all)."""

    source_language: str
    target_language: str
    train_examples: int | None = None

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The sentences of a split, source and target, in the order of the token arrays."""
        texts = sources.open_split(self.name, split)
        order = chosen(split, len(texts), self.train_examples)
        pairs = [(pair[self.source_language], pair[self.target_language]) for pair in map(texts.__getitem__, order)]
        return [source for source, _ in pairs], [target for _, target in pairs]


class Prepared:
    """Vocabulary and token arrays of a choice: `tokens[split]` is (sources, targets), `fingerprint` their content."""

    def __init__(self, folder: Path, tokenizer: Any):
        self.tokenizer = tokenizer
        self.fingerprint = folder.name
        splits = json.loads((folder / "splits.json").read_text())
        self.tokens = {
            split: tuple(TokenArray.load(folder / f"{split}.{side}") for side in ("source", "target"))
            for split in splits
        }


def prepare(choice: Any, tokenizer: Any, report: Callable[[str], None] = lambda line: None) -> Prepared:
    """Everything that training on the choice needs, built where it is missing. `tokenizer` is not trained yet.

    The choice is a `Choice` or another frozen dataclass with its methods.
    """
    choice.prepare(report)
    stamp = choice.stamp()
    settings = [1, dataclasses.asdict(choice), type(tokenizer).__name__, tokenizer.settings(), stamp]
    index = storage.folder("index") / f"{storage.content_hash(settings)}.json"
    if stamp and index.exists():
        with contextlib.suppress(OSError, ValueError, KeyError):
            found = json.loads(index.read_text())
            model = storage.folder("tokenizers") / found["tokenizer"]
            return Prepared(storage.folder("tokens") / found["tokens"], tokenizer.load(model))
    folder = _build(choice, tokenizer, report)
    if stamp:
        with storage.written(index) as temporary:
            temporary.write_text(json.dumps({"tokenizer": tokenizer.path.name, "tokens": folder.name}))
    return Prepared(folder, tokenizer)


def _build(choice: Any, tokenizer: Any, report: Callable[[str], None]) -> Path:
    """Train the vocabulary, tokenise every split; the folder of token arrays. Holds the whole text in memory."""
    texts = {split: choice.text(split) for split in dict.fromkeys(("train", *choice.splits()))}
    train_source, train_target = texts["train"]
    tokenizer.fit([*train_source, *train_target], report)
    lines = [side for split in texts for side in texts[split]]
    folder = storage.folder("tokens") / storage.content_hash([1, list(texts), tokenizer.fingerprint], *lines)
    with storage.locked(f"tokens-{folder.name}"):
        if not folder.exists():
            report(f"tokenising {sum(len(source) for source, _ in texts.values()):,} pairs")
            with storage.written(folder) as temporary:
                temporary.mkdir()
                for split, pair in texts.items():
                    for side, sentences in zip(("source", "target"), pair, strict=True):
                        TokenArray.join(tokenizer.encode(sentences)).save(temporary / f"{split}.{side}")
                (temporary / "splits.json").write_text(json.dumps(list(texts)))
    return folder
