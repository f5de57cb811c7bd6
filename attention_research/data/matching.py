"""Pairs of documents, byte by byte: are two news stories of one class? For two towers, which meet in the last layers.

It stands for the Long Range Arena's Retrieval, whose documents are papers of the ACL Anthology Network and whose
question is whether one cites the other; those are in no package, and this is not that task. Here the documents are of a
labelled set (`sources.labels`) by its own splits, cut at `max_length` bytes; half of the pairs are of one class, the
classes of each half drawn evenly, and no document is paired with itself.
"""

from __future__ import annotations

import numpy as np

from attention_research.data import sources
from attention_research.data.byte_tokens import byte_ids
from attention_research.data.labelled_arrays import LabelledArrays
from attention_research.data.protocol import Batch
from attention_research.registry import Positive

_SEEDS = {"train": 2003, "validation": 2004, "test": 2005}


class Matching(LabelledArrays):
    """Batches have "source" and "other" [B S] and the "label", 1 where both are of one class."""

    sides = ("source", "other")

    def __init__(
        self, *, name: str, max_length: Positive, train_examples: Positive = 20_000, held_out: Positive = 2000
    ):
        self._labels = sources.labels(name)
        numbers = {"train": train_examples, "validation": held_out, "test": held_out}
        super().__init__(f"pairs of {name}", max_length, numbers, ("different", "same"), {"name": name})

    def _made(self, split: str) -> Batch:
        name = self.settings["name"]
        sources.prepare(name, self._report)
        texts = list(sources.open_split(name, split))
        tokens = np.zeros((len(texts), self.max_length), np.int32)
        for row, text in enumerate(texts):
            ids = byte_ids(text["text"][: self.max_length])[: self.max_length]
            tokens[row, : len(ids)] = ids
        of_class = [np.flatnonzero([text["label"] == label for text in texts]) for label in self._labels]
        first, second, same = pairs(of_class, self.numbers[split], np.random.default_rng(_SEEDS[split]))
        return {"source": tokens[first], "other": tokens[second], "label": same}


def pairs(
    of_class: list[np.ndarray], number: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first [n], second [n], whether they are of one class [n]) of documents that stand in lists by class."""
    same = np.arange(number) % 2
    one = generator.integers(len(of_class), size=number)
    other = np.where(same == 1, one, (one + generator.integers(1, len(of_class), number)) % len(of_class))
    first = np.asarray([generator.choice(of_class[label]) for label in one])
    second = []
    for example, label in enumerate(other):
        rest = of_class[label]
        second.append(generator.choice(rest[rest != first[example]]))
    return first, np.asarray(second), same
