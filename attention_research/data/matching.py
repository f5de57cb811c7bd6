"""Pairs of documents as bytes: do two news stories have the same class? For models with two towers.

The task replaces Retrieval of the Long Range Arena, which asks whether one paper of the ACL Anthology Network cites
another. No package contains those papers, and this is not the same task. Here the documents come from a labelled set
(`sources.labels`) with its own splits, and are truncated at `max_length` bytes. In half of the pairs both documents
have one class; the classes of each half are drawn uniformly. No document is paired with itself.
"""

from __future__ import annotations

import numpy as np

from attention_research.data import sources
from attention_research.data.byte_tokens import byte_ids
from attention_research.data.labelled_arrays import LabelledArrays
from attention_research.data.protocol import Batch
from attention_research.signatures import Positive

_SEEDS = {"train": 2003, "validation": 2004, "test": 2005}


class Matching(LabelledArrays):
    """Batches have "source" and "other" [B S] and "label" [B], 1 if both have the same class."""

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
    """(first [n], second [n], whether they have one class [n]), given the documents of each class."""
    same = np.arange(number) % 2
    one = generator.integers(len(of_class), size=number)
    other = np.where(same == 1, one, (one + generator.integers(1, len(of_class), number)) % len(of_class))
    first = np.asarray([generator.choice(of_class[label]) for label in one])
    second = []
    for example, label in enumerate(other):
        rest = of_class[label]
        second.append(generator.choice(rest[rest != first[example]]))
    return first, np.asarray(second), same
