"""Pictures with questions and their answers, one of a list: from a data set's name to batches by (seed, step).

A batch is {"image" [B Y X C] uint8, "source" [B S], "label" [B]}: 0 to 255; the tokens of a question, 0 where padding,
with the end of sentence; the answer's number, -1 in rows that only fill a batch. Several questions share a picture,
whose split is that of all of them.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from attention_research.data.named_picture_texts import NamedPictureTexts
from attention_research.data.named_pictures import Pictures, PictureSet
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.registry import Child, Positive


class ImageQuestions(NamedPictureTexts):
    """A TFDS set of questions on pictures; lengths are those of `NamedPictureTexts`.

    The classes are all answers of the set, in the alphabet's order. `train_examples` takes that many pictures of a
    fixed permutation of the training split, on whose questions the vocabulary then rests. `normalization` "words"
    lowers the case of questions and takes punctuation off the words.
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
        """The answers that there are; of a run that has begun, those that there were."""
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
        """The answers in their order."""
        return {"classes": list(self.classes)}

    def labels(self, split: str) -> np.ndarray:
        """The answers [n] of a split in numbers. Example ids index them."""
        return self.arrays(split)["label"]

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The questions of a split, normalised, and their answers. Example ids index them."""
        questions = self._text(split)
        return [questions[one] for one in self._kept(split)], [self.classes[label] for label in self.labels(split)]

    def describe(self) -> str:
        """One line for the user: name, pictures, questions, answers."""
        pictures, questions = self._images.number("train"), self.numbers["train"]
        return f"{self.name} · {pictures:,} pictures · {questions:,} questions · {len(self.classes)} answers"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Name -> shape of every batch that training can see; nothing is read."""
        return [{**super().train_shapes(batch_size)[0], "label": (batch_size,)}]
