"""A text for language models in random windows, without boundaries: each batch draws the places where its rows begin.

A row has `max_length` tokens to predict, and "target_before" is the token that stands before the first of them. A model
of previous tokens therefore reads `max_length` tokens of the text and predicts the next one at each place, as in
nanoGPT. A window may begin at any token of the training text, also within a document; documents follow each other. In
evaluation, windows follow each other without overlap, so that each token but the first of the text is predicted once;
the last window is shorter.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from attention_research.data import sources
from attention_research.data.names import check_name
from attention_research.data.prepared import Named
from attention_research.data.protocol import Batch
from attention_research.data.text_rows import TextRows
from attention_research.data.tokens import TokenArray
from attention_research.errors import ConfigError
from attention_research.signatures import Child, Positive


@dataclasses.dataclass(frozen=True)
class WholeTexts(Named):
    """The input of `prepared.prepare`: the feature `text` of a set as it is, with its line breaks, without targets."""

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """The texts of a split."""
        there = sources.data_source(self.name, split)
        texts = [there[index]["text"] for index in range(len(there))]
        return [text.decode() if isinstance(text, bytes) else str(text) for text in texts], []


class RandomWindows(TextRows):
    """Windows of `max_length` tokens of the text of `_choice`; the interface is that of `Pairs`."""

    evaluation_seed = 1337

    def __init__(self, name: str, max_length: int, vocabulary_size: int, tokenizer: Callable[[], Any]):
        super().__init__(name, max_length, tokenizer, lambda: None, None)  # no batching by length
        self.vocabulary_size = vocabulary_size
        self.stream = functools.cache(self._stream)

    def _stream(self, split: str) -> np.ndarray:
        """The tokens of a split, document after document."""
        tokens = np.asarray(self._texts(split).flat, np.int32)
        if len(tokens) <= self.max_length:
            raise ConfigError(f"data.max_length: the {split} text of {self.name} has only {len(tokens)} tokens, "
                              f"and a window needs {self.max_length + 1}")  # fmt: skip
        return tokens

    def _rows(self, split: str) -> int:
        return -(-(len(self.stream(split)) - 1) // self.max_length)

    def describe(self) -> str:
        """A one-line description for the user: name, tokens, windows."""
        length = len(self.stream("train"))
        return f"{self.name} · {length:,} tokens in windows of {self.max_length} · {self.tokenizer.size:,} tokens"

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """(an empty text, the text to predict) of each window of a split in evaluation."""
        windows = [self._window(split, number) for number in range(self._rows(split))]
        return [""] * len(windows), self.tokenizer.decode(windows)

    def _window(self, split: str, number: int) -> np.ndarray:
        first = 1 + number * self.max_length
        return self.stream(split)[first : first + self.max_length]

    # Training

    def _plan(self, seed: int, batch_size: int) -> Callable[[int], np.ndarray]:
        """Step -> the place before each row's first target."""
        places = len(self.stream("train")) - self.max_length
        return lambda step: np.random.default_rng([seed, step]).integers(places, size=batch_size)

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The batch of a step, counted from 0; with several hosts, the rows of one host."""
        if batch_size % hosts:
            raise ConfigError(f"training.batch_size: {batch_size} rows do not divide over {hosts} hosts")
        part = batch_size // hosts
        first = self.plan(seed, batch_size)(step)[host * part : (host + 1) * part]
        rows = self.stream("train")[first[:, None] + np.arange(self.max_length + 1)]
        return {"target": rows[:, 1:], "target_before": rows[:, 0]}

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape of the training batches; reads nothing."""
        return [{"target": (batch_size, self.max_length), "target_before": (batch_size,)}]

    # Evaluation

    def _taken(self, split: str, ids: np.ndarray, rows: int) -> Batch:
        (shapes,) = self.train_shapes(rows)
        batch = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
        batch["target_before"][: len(ids)] = self.stream(split)[ids * self.max_length]
        for row, number in enumerate(ids):
            window = self._window(split, int(number))
            batch["target"][row, : len(window)] = window
        return batch

    def target_sentences(self, split: str, examples: int | None = None) -> TokenArray:
        """The whole text of a split as one sequence, so that n-gram models read on from window to window; or the
        windows of `examples`."""
        if examples is None:
            return TokenArray.join([self.stream(split)])
        return super().target_sentences(split, examples)

    def _counted(self) -> Any:
        return self.stream("train")


class Windows(RandomWindows):
    """A TFDS set of texts, its vocabulary, and windows of `max_length` tokens.

    `name` is a set with a feature text, and `tokenizer` its vocabulary, such as `characters`.
    """

    def __init__(
        self,
        *,
        name: str,
        max_length: Positive,
        vocabulary_size: Positive,
        tokenizer: Child["tokenizer"] = "characters",
    ):
        check_name(name, kind="windows")
        super().__init__(name, max_length, vocabulary_size, tokenizer)

    @functools.cached_property
    def _choice(self) -> WholeTexts:
        features = sources.languages(self.name)
        if "text" not in features:
            raise ConfigError(f"data.name: {self.name} has no feature text; it has {', '.join(features)}")
        return WholeTexts(self.name)
