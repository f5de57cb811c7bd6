"""Questions about pictures with answers from a fixed list, by the name of a data set; batches by (seed, step).

A batch is {"image" [B Y X C] uint8, "source" [B S], "label" [B]}. Images have values from 0 to 255. A source is the
tokens of a question with the end of sentence, 0 at padding. A label is the number of the answer, -1 in rows that only
fill a batch. All questions about a picture are in one split.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from attention_research.data.named_picture_texts import NamedPictureTexts
from attention_research.data.named_pictures import Pictures, PictureSet
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive


class ImageQuestions(NamedPictureTexts):
    """A TFDS set of questions about pictures; `NamedPictureTexts` explains the lengths.

    The classes are all answers of the set, in alphabetical order. `train_examples` selects that many pictures of a
    fixed permutation of the training split; the vocabulary is then trained on their questions only. `normalization`
    "words" converts questions to lower case and separates punctuation from words.
    """

    array, feature, fields = "source", "questions", ("question", "answer")
    fill = {"label": -1}
    evaluation_seed = 1505

    def __init__(
        self,
        *,
        name: str,
        side: Positive,
        channels: Positive,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "words",
        normalization: Literal["words", "none"] = "words",
        train_examples: Positive | None = None,
    ):
        choice = PictureSet.named(name, self.feature, self.fields, normalization, train_examples)
        super().__init__(name, choice, Pictures(choice, side, channels), side, channels, max_length, tokenizer)
        self.vocabulary_size = vocabulary_size

    @functools.cached_property
    def classes(self) -> tuple[str, ...]:  # type: ignore[override]
        """All answers of the set; for a run that has begun, the answers at its start."""
        if self.kept is not None:
            return tuple(self.kept.learned["classes"])
        return tuple(sorted({answer for split in self._choice.splits() for answer in self._answers(split)}))

    def _answers(self, split: str) -> list[str]:
        return self._choice.field(split, "answer")

    def _made(self, split: str) -> Batch:
        numbers = {answer: number for number, answer in enumerate(self.classes)}
        answers = self._answers(split)
        unknown = next((answer for answer in answers if answer not in numbers), None)
        if unknown is not None:
            raise ConfigError(
                f"{self.name}: the answer {unknown!r} of {split} is none of the run's {len(numbers)} classes"
            )
        labels = np.asarray([numbers[answers[question]] for question in self._kept(split)], np.int32)
        return {**super()._made(split), "label": labels}

    def learned(self) -> dict[str, list[str]]:
        """The answers in order."""
        return {"classes": list(self.classes)}

    def labels(self, split: str) -> np.ndarray:
        """The answers [n] of a split as class numbers, indexed by example id."""
        return self.arrays(split)["label"]

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The questions of a split, normalised, and their answers, indexed by example id."""
        questions = self._text(split)
        return [questions[one] for one in self._kept(split)], [self.classes[label] for label in self.labels(split)]

    def describe(self) -> str:
        """A one-line description for the user: name, pictures, questions, answers."""
        pictures, questions = self._images.number("train"), self.numbers["train"]
        return f"{self.name} · {pictures:,} pictures · {questions:,} questions · {len(self.classes)} answers"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; reads nothing."""
        return [{**super().train_shapes(batch_size)[0], "label": (batch_size,)}]
