"""Induction heads, generated (Gu & Dao 2023, arXiv 2312.00752, section 4.1.2 and appendix E.1).

    3 7 1 T 5 2 9 ... 4 T        5        T is the trigger

A row has random tokens. One of them is the trigger, at a random place, and the last token of the row is the trigger
again. The answer is the token that followed the trigger. The paper says this in words, and its generator is not
released; here all other tokens are drawn uniformly from the symbols that are not the trigger, and the first trigger is
at any place that has another token between it and the last one.

Training rows are new in each batch. The rows of validation have the same length. `rows` makes rows of any length.
"""

from __future__ import annotations

import numpy as np

from attention_research.data.drawn import Drawn
from attention_research.data.protocol import Batch
from attention_research.errors import ConfigError
from attention_research.signatures import Positive
from attention_research.tokens import UNKNOWN

#: The trigger; the other symbols follow, and smaller ids are special tokens.
TRIGGER = UNKNOWN + 1
_VALIDATION_SEED = 2312


def rows(random: np.random.Generator, count: int, length: int, symbols: int) -> Batch:
    """{"target" [count length]: a row without its first token, and the answer; "target_before" [count]: the first
    token; "answers" [count length]: 1 at the answer}.

    >>> one = rows(np.random.default_rng(0), 1, length=8, symbols=16)
    >>> one["target_before"].tolist(), one["target"].tolist()  # the trigger is 4
    ([17], [[14, 12, 9, 4, 5, 6, 4, 5]])
    """
    text = random.integers(TRIGGER + 1, TRIGGER + symbols, (count, length + 1))
    place, every = random.integers(length - 2, size=count), np.arange(count)
    text[every, place] = text[every, length - 1] = TRIGGER
    text[every, length] = text[every, place + 1]
    answers = np.zeros((count, length), np.int32)
    answers[:, -1] = 1
    return {"target": text[:, 1:].astype(np.int32), "target_before": text[:, 0].astype(np.int32), "answers": answers}


class Induction(Drawn):
    """Rows of `max_length` tokens with one answer each (see the module docstring).

    `symbols` is the number of symbols with the trigger, and `held_out` that of validation rows.
    """

    evaluation_seed = 2313

    def __init__(
        self, *, max_length: Positive, vocabulary_size: Positive, symbols: Positive = 16, held_out: Positive = 512
    ):
        if max_length < 3:
            raise ConfigError(f"data.max_length: expected at least 3, got {max_length}")
        if vocabulary_size < TRIGGER + symbols or symbols < 2:
            raise ConfigError(f"data.symbols: expected 2 to vocabulary_size - {TRIGGER} = {vocabulary_size - TRIGGER}, "
                              f"got {symbols}")  # fmt: skip
        self.name, self.max_length, self.symbols = f"induction, {symbols} symbols", max_length, symbols
        self.numbers, self.settings = {"validation": held_out}, {"length": max_length, "symbols": symbols}
        super().__init__()

    @property
    def chance(self) -> float:
        """The share of right answers of a model that always answers with the same symbol."""
        return 1 / (self.symbols - 1)

    def _made(self, split: str) -> Batch:
        random = np.random.default_rng(_VALIDATION_SEED)
        return rows(random, self.numbers[split], self.max_length, self.symbols)

    def batch_at(self, seed: int, step: int, batch_size: int, host: int = 0, hosts: int = 1) -> Batch:
        """The new rows of a step, counted from 0; with several hosts, the rows of one host."""
        part = batch_size // hosts
        made = rows(np.random.default_rng([seed, step]), batch_size, self.max_length, self.symbols)
        return {name: array[host * part : (host + 1) * part] for name, array in made.items()}

    def describe(self) -> str:
        """A one-line description for the user."""
        return f"{self.name} · new rows of {self.max_length:,} tokens in each batch"

    def train_shapes(self, batch_size: int) -> list[dict[str, tuple[int, ...]]]:
        """Array name -> shape, for each batch shape of training; makes nothing."""
        shape = (batch_size, self.max_length)
        return [{"target": shape, "target_before": (batch_size,), "answers": shape}]
