"""The vocabulary of another run, for data on which its model is trained further: the same token is the same row.

A run's environment.json says which file of the data cache holds its vocabulary and what that file's content hash is,
its config.json what kind of vocabulary that is. Nothing is trained here, whatever the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_research import registry
from attention_research.data import storage
from attention_research.errors import ConfigError
from attention_research.registry import Positive

SETTING = "config.data.tokenizer.run"


class FromRun:
    """The stored vocabulary of the run in the folder `run`, which must have begun; its own tokenizer's interface.

    `vocabulary_size` is the model's: there may not be fewer than the vocabulary has tokens. Raises `ConfigError` where
    there are, where no run is there, and where the stored vocabulary is not the one that the run had.
    """

    def __init__(self, *, run: str, vocabulary_size: Positive):
        self.run, self.vocabulary_size = Path(run), vocabulary_size

    @cached_property
    def stored(self) -> Any:
        """The run's own tokenizer, loaded."""
        tokenizer = opened(self.run)
        if tokenizer.size > self.vocabulary_size:
            raise ConfigError(
                f"{SETTING}: the vocabulary of {self.run} has {tokenizer.size:,} tokens, more than vocabulary_size, "
                f"{self.vocabulary_size:,}"
            )
        return tokenizer

    def settings(self) -> dict:
        """The vocabulary's content, wherever the run lies."""
        return {"kind": "from_run", "vocabulary": self.fingerprint}

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> FromRun:
        """Nothing: it is trained."""
        return self

    def load(self, path: Path) -> FromRun:
        """The run's vocabulary, of which the path is a copy."""
        return self

    @property
    def path(self) -> Path:
        """Its file."""
        return self.stored.path

    @property
    def fingerprint(self) -> str:
        """Its content hash."""
        return self.stored.fingerprint

    @property
    def size(self) -> int:
        """The number of its tokens, special ones included."""
        return self.stored.size

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, with the end of sentence at the end and without a beginning."""
        return self.stored.encode(texts)

    def decode(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first end of sentence."""
        return self.stored.decode(tokens)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Each token as the run's tokenizer writes it."""
        return self.stored.pieces(tokens)


def opened(run: Path) -> Any:
    """The tokenizer of the run in this folder, loaded. Raises `ConfigError`, one line, where that cannot be."""
    section = _read(run / "config.json")["resolved"]["data"].get("tokenizer")
    if section is None:
        raise ConfigError(f"{SETTING}: the data of {run} have no tokenizer that others could take")
    known = _read(run / "environment.json").get("vocabulary")
    if known is None:
        raise ConfigError(f"{SETTING}: environment.json of {run} names no vocabulary; rerun train there, which does")
    settings = {name: value for name, value in section.items() if name != "kind"}
    file = storage.folder("tokenizers") / known["file"]
    try:
        tokenizer = registry.lookup("tokenizer", section["kind"])(**settings).load(file)
    except OSError:
        raise ConfigError(
            f"{SETTING}: {file}, the vocabulary of {run}, is gone; evaluate there makes it anew"
        ) from None
    if tokenizer.fingerprint != known["fingerprint"]:
        was = f"{known['fingerprint']} when {run} was trained"
        raise ConfigError(f"{SETTING}: the vocabulary is {tokenizer.fingerprint} and was {was}; train that run again")
    return tokenizer


def recorded(tokenizer: Any) -> dict[str, Any]:
    """What a run's environment.json says of its tokenizer; {} of one that is stored in no file."""
    path = getattr(tokenizer, "path", None)
    return {} if path is None else {"vocabulary": {"file": path.name, "fingerprint": tokenizer.fingerprint}}


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{SETTING}={path.parent}: no run there ({path.name} is missing); train one first") from None
