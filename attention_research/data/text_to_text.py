"""Text-to-text tasks (Raffel et al. 2020, section 2.4 and appendix D): a prefix of the source names the task.

    set, prefix                                   source, target         what a model reads -> writes
    reviews/imdb "sentiment: "                    text, label            sentiment: A dull film. -> negative
    news/bbc "topic: "                            text, label            topic: Safin cool on Wimbledon ... -> sports
    headlines/bbc "summarize: "                   document, summary      summarize: Marat Safin ... -> Safin cool on ...
    trivia/red "trivia "                          topic question, answer trivia topic: anime question: Who ... -> Bleach
    bible_translate/de-en "translate English to German: "    en, de      translate English to German: Jesus wept. -> ...

A class is written as a word. A model may generate a word that is not a class, which counts as an error (section 2.4).

A batch is {"source" [B S], "target" [B T]}, int32, as in `Pairs`. If each row has one example, T is at most
`target_length`, so that a decoder does not process the padding of short targets.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attention_research.data import sources
from attention_research.data.batching import APART
from attention_research.data.names import check_name
from attention_research.data.pairs import Pairs
from attention_research.data.prepared import Named, chosen
from attention_research.data.protocol import Batch
from attention_research.data.tokens import BySplit, TokenArray
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive


def stated(example: Mapping[str, str], features: Sequence[str]) -> str:
    """One feature of an example unchanged; several features, each after its name (appendix D, as for MNLI and SQuAD).

    >>> stated({"topic": "anime", "question": "Who?"}, ["topic", "question"])
    'topic: anime question: Who?'
    """
    if len(features) == 1:
        return example[features[0]]
    return " ".join(f"{name}: {example[name]}" for name in features)


def without_prefix(data: Any, sources: Sequence[str]) -> list[str]:
    """The sources of any data without the prefix that tells a text-to-text model its task."""
    prefix = getattr(data, "prefix", "")
    return [source.removeprefix(prefix) for source in sources]


@dataclasses.dataclass(frozen=True)
class Examples(Named):
    """The part of a set to read: prefix and features of the source, target feature, number of training examples."""

    prefix: str
    source: tuple[str, ...]
    target: str
    train_examples: int | None = None

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split, source and target, in the order of the token arrays."""
        there = sources.open_split(self.name, split)
        examples = [there[index] for index in chosen(split, len(there), self.train_examples)]
        return [self.prefix + stated(one, self.source) for one in examples], [one[self.target] for one in examples]


class TextToText(Pairs):
    """A TFDS set of texts as one task of text to text, and its batches; the interface is that of `Pairs`.

    `prefix`, with its final space, is put before every source; `source` and `target` name features of the set. No
    training example is left out: sources are truncated to `max_length` tokens and keep their prefix, and targets to
    `target_length` (None: `max_length`). A new text (`read`) must contain its own prefix.
    """

    target_length: int

    def __init__(
        self,
        *,
        name: str,
        prefix: str = "",
        source: tuple[str, ...],
        target: str,
        max_length: Positive,
        target_length: Positive | None = None,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "sentencepiece",
        batching: Child["batching"] = "buckets",
        train_examples: Positive | None = None,
    ):
        check_name(name, kind="text_to_text")
        super().__init__(name, max_length, tokenizer, batching, train_examples)
        self.prefix, self.source, self.target = prefix, tuple(source), target
        self.vocabulary_size, self.target_length = vocabulary_size, target_length or max_length
        if self.target_length > max_length:
            raise ConfigError(f"data.target_length: {target_length} is more than max_length, which is {max_length}")
        if not self.source:
            raise ConfigError("data.source: names no feature")

    @functools.cached_property
    def _choice(self) -> Examples:
        available = sources.languages(self.name)
        for key, feature in (*(("source", feature) for feature in self.source), ("target", self.target)):
            if feature not in available:
                raise ConfigError(f"data.{key}: {self.name} has no {feature!r}; it has {', '.join(available)}")
        return Examples(self.name, self.prefix, self.source, self.target, self.train_examples)

    @functools.cached_property
    def _prepared(self) -> Any:
        """Tokens in the form of `Pairs`, with both sides truncated."""
        prepared = super()._prepared
        self._whole = prepared.tokens
        cut = lambda split: tuple(map(_cut, self._whole[split], (self.max_length, self.target_length)))
        prepared.tokens = BySplit(tuple(self._whole), cut)
        return prepared

    def shortened(self) -> dict[str, int]:
        """Split -> the number of its examples with a truncated source or target."""
        longest = {split: [side.lengths for side in sides] for split, sides in self._prepared.tokens.items()}
        whole = {split: [side.lengths for side in sides] for split, sides in self._whole.items()}
        counts = {split: int(np.sum(np.any(np.not_equal(whole[split], longest[split]), axis=0))) for split in whole}
        return {split: count for split, count in counts.items() if count}

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        batch = super().batch_at(seed, step, batch_size, host, hosts)
        return self._narrow(batch) if self.batching.parts == APART else batch

    def evaluation_batches(
        self, split: str, batch_size: int, examples: int | None = None
    ) -> Iterator[tuple[np.ndarray, Batch]]:
        """(example ids [B], batch) over a split, as `Pairs.evaluation_batches`."""
        for ids, batch in super().evaluation_batches(split, batch_size, examples):
            yield ids, self._narrow(batch)

    def _narrow(self, batch: Batch) -> Batch:
        return {**batch, "target": batch["target"][:, : self.target_length]}

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; reads nothing."""
        shapes = super().train_shapes(batch_size)
        if self.batching.parts != APART:
            return shapes
        return [{**shape, "target": (batch_size, min(shape["target"][1], self.target_length))} for shape in shapes]


def _cut(tokens: TokenArray, longest: int) -> TokenArray:
    """The sequences truncated to `longest` tokens, with the end of sentence last."""
    if not np.any(tokens.lengths > longest):
        return tokens
    return TokenArray.join(ids if len(ids) <= longest else np.append(ids[: longest - 1], ids[-1]) for ids in tokens)
