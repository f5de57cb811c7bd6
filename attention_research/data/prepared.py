"""The tokenised pairs of a data set in the cache: text -> vocabulary -> token arrays, each stored by its content.

tokenizers/HASH.model  a vocabulary; HASH is that of the training text and of the settings of the tokenizer
tokens/HASH/           token arrays; HASH is that of the text of every split and of the vocabulary
index/HASH.json        the names of the other two; HASH is that of the files of the data set (names, sizes, times)

The index finds text that was prepared before without reading it.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.data import sources, storage
from attention_research.data.kept import LeavesOut, NamesVocabularyText, digest, trained_settings
from attention_research.data.tokens import BySplit, TokenArray

#: Seed of the permutation from which subsets are taken; a smaller subset is part of a larger one.
SUBSET_SEED = 20170612


def chosen(split: str, size: int, train_examples: int | None) -> np.ndarray:
    """The examples of a split to read: all, or the first `train_examples` of the fixed permutation, sorted."""
    if split != "train" or train_examples is None:
        return np.arange(size)
    return np.sort(np.random.default_rng(SUBSET_SEED).permutation(size)[:train_examples])


@dataclasses.dataclass(frozen=True)
class Named:
    """A data set of `sources` by its name, for `prepare`; a subclass defines `text`."""

    name: str

    def prepare(self, report: Callable[[str], None]) -> None:
        """Builds the set if it is missing."""
        sources.prepare(self.name, report)

    def stamp(self) -> str | None:
        """A string that changes if the text may have changed; None if this cannot be known without reading it."""
        return sources.stamp(self.name)

    def splits(self) -> tuple[str, ...]:
        return sources.split_names(self.name)


@dataclasses.dataclass(frozen=True)
class Choice(Named):
    """The part of a data set to read: its name, two languages, and the number of training examples (None: all)."""

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
    """The vocabulary and token arrays of a choice: `tokens[split]` is (sources, targets), `fingerprint` a content hash.

    `splits` maps each split to {"digest", "examples"} of its text; `facts` are those of `facts_of`.
    """

    def __init__(self, folder: Path, tokenizer: Any, read: Mapping[str, Any]):
        self.tokenizer = tokenizer
        self.fingerprint = folder.name
        self.splits, self.facts = read["splits"], read["facts"]
        load = lambda split: tuple(TokenArray.load(folder / f"{split}.{side}") for side in ("source", "target"))
        self.tokens = BySplit(json.loads((folder / "splits.json").read_text()), load)

    def open(self, *splits: str) -> None:
        """Does nothing: all splits have been read."""


def found(choice: Any, tokenizer: Any) -> Prepared | None:
    """Data that were prepared before, found by the files of the data set without reading them; else None."""
    path = _index(choice, tokenizer.settings(), choice.stamp())
    if path is None or not path.exists():
        return None
    with contextlib.suppress(OSError, ValueError, KeyError):
        there = json.loads(path.read_text())
        model = storage.folder("tokenizers") / there["tokenizer"]
        return Prepared(storage.folder("tokens") / there["tokens"], tokenizer.load(model), there["read"])
    return None


def prepare(choice: Any, tokenizer: Any, report: Callable[[str], None] = lambda line: None) -> Prepared:
    """The prepared data of a choice, built if they are missing. `tokenizer` is not trained yet.

    The choice is a `Choice` or another frozen dataclass with its methods. If it leaves out examples, its `left_out()`
    returns {split: {reason: number}}.
    """
    choice.prepare(report)
    there = found(choice, tokenizer)
    if there is None:
        settings = tokenizer.settings()
        folder, read = _build(choice, tokenizer, report)
        there = Prepared(folder, tokenizer, read)
        for known in (settings, trained_settings(tokenizer.fingerprint)):
            if (index := _index(choice, known, choice.stamp())) is not None:
                with storage.unless_read_only(), storage.written(index) as temporary:
                    said = {"tokenizer": tokenizer.path.name, "tokens": folder.name, "read": read}
                    temporary.write_text(json.dumps(said))
    return there


def _index(choice: Any, settings: Any, stamp: str | None) -> Path | None:
    key = storage.content_hash([2, type(choice).__name__, dataclasses.asdict(choice), settings, stamp])
    return storage.folder("index") / f"{key}.json" if stamp else None


def _build(choice: Any, tokenizer: Any, report: Callable[[str], None]) -> tuple[Path, dict[str, Any]]:
    """Trains the vocabulary and tokenises every split. Returns the folder of token arrays, and {"splits", "facts"} of
    the text. Holds the whole text in memory."""
    texts = {split: choice.text(split) for split in dict.fromkeys(("train", *choice.splits()))}
    train_source, train_target = texts["train"]
    own = choice.vocabulary_text(texts) if isinstance(choice, NamesVocabularyText) else [*train_source, *train_target]
    tokenizer.fit(own, report)
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
    digests = {
        split: {"digest": digest(choice, split, sides), "examples": len(sides[0])} for split, sides in texts.items()
    }
    return folder, {"splits": digests, "facts": facts_of(choice, texts)}


def facts_of(choice: Any, texts: Mapping[str, tuple[list[str], list[str]]]) -> dict[str, Any]:
    """Facts that are reported to the user: the numbers of examples left out, with reasons, and of repeated ones."""
    left_out = choice.left_out() if isinstance(choice, LeavesOut) else {}
    return {"left_out": left_out, "repeated": repeated(texts)}


def repeated(texts: Mapping[str, tuple[list[str], list[str]]]) -> dict[str, dict[str, int]]:
    """Split -> the numbers of examples whose source, and whose whole pair, are also in the training text.

    >>> repeated({"train": (["a", "b"], ["A", "B"]), "test": (["a", "a", "b", "c"], ["A", "A", "D", "C"])})
    {'test': {'sources': 3, 'pairs': 2}}
    """
    pairs = {split: list(zip(*sides, strict=True)) if sides[1] else [(one,) for one in sides[0]]
             for split, sides in texts.items()}  # fmt: skip
    held_out = {split: of for split, of in pairs.items() if split != "train"}
    wanted = {pair for of in held_out.values() for pair in of}
    sources = {pair[0] for pair in wanted}
    seen_pairs, seen_sources = set(), set()
    for pair in pairs["train"]:
        if pair[0] in sources:
            seen_sources.add(pair[0])
            if pair in wanted:
                seen_pairs.add(pair)
    counts = {
        split: {"sources": sum(pair[0] in seen_sources for pair in of), "pairs": sum(pair in seen_pairs for pair in of)}
        for split, of in held_out.items()
    }
    return {split: count for split, count in counts.items() if count["sources"]}
