"""The vocabulary of another run, for data on which its model is trained further: the same token is the same row.

A run keeps its vocabulary in its own folder (`data.kept`). Of a run that an earlier version trained, environment.json
says which file of the data cache holds its vocabulary and what that file's content hash is, and config.json what kind
of vocabulary that is. Nothing is trained here, whatever the text.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_research import registry
from attention_research.data import kept, storage
from attention_research.errors import ConfigError
from attention_research.registry import Positive

SETTING = "config.data.tokenizer.run"


class FromRun(kept.Trained):
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


def opened(run: Path) -> Any:
    """The tokenizer of the run in this folder, loaded. Raises `ConfigError`, one line, where that cannot be."""
    if kept.has(run):
        try:
            tokenizer = kept.read(run).tokenizer
        except ConfigError as error:
            raise ConfigError(f"{SETTING}: {error}") from None
        if tokenizer is None:
            raise ConfigError(f"{SETTING}: the data of {run} have no tokenizer that others could take")
        return tokenizer.stored
    return cached(run)


def cached(run: Path) -> Any:
    """The tokenizer of a run that an earlier version trained, from the data cache; raises as `opened`."""
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


def section_of(config: Any, own: Path | None = None) -> dict[str, Any] | None:
    """The section of the tokenizer of a resolved data section; of one that is taken from a run, that run's own.

    `own` is the folder of the run whose section it is, where that has begun.
    """
    if own is not None and kept.has(own):
        return (kept.read_document(own).get("tokenizer") or {}).get("section")
    section = config.get("tokenizer")
    while section is not None and section["kind"] == "from_run":
        run = Path(section["run"])
        if kept.has(run):
            return (kept.read_document(run).get("tokenizer") or {}).get("section")
        section = _read(run / "config.json")["resolved"]["data"].get("tokenizer")
    return section


def recorded(tokenizer: Any) -> dict[str, Any]:
    """What a run's environment.json says of its tokenizer; {} of one that is stored in no file."""
    path = getattr(tokenizer, "path", None)
    return {} if path is None else {"vocabulary": {"file": path.name, "fingerprint": tokenizer.fingerprint}}


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{SETTING}={path.parent}: no run there ({path.name} is missing); train one first") from None
