"""The vocabulary of another run, for further training of its model: each token keeps its row in the embedding.

A run keeps its vocabulary in its folder (`data.kept`). For a run of an earlier version, environment.json names the file
of the vocabulary in the data cache and its content hash, and config.json names the kind of vocabulary. This module
trains nothing, whatever the text.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from attention_research import registry
from attention_research.data import kept, storage
from attention_research.errors import ConfigError
from attention_research.signatures import Positive

SETTING = "config.data.tokenizer.run"


class FromRun(kept.Trained):
    """The stored vocabulary of the run in the folder `run`, which must have begun, with the interface of its tokenizer.

    `vocabulary_size` is that of the model, and at least the number of tokens. Raises `ConfigError` if it is smaller, if
    there is no run in the folder, or if the stored vocabulary is not the one that the run used.
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
    """The tokenizer of the run in this folder, loaded. Raises `ConfigError`, one line, if that is not possible."""
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
    """The tokenizer section of a resolved data section; for a tokenizer taken from a run, the section of that run.

    `own` is the folder of the run that the data section belongs to, if the run has begun.
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
    """The entry for a tokenizer in a run's environment.json; {} for one that is not stored in a file."""
    path = getattr(tokenizer, "path", None)
    return {} if path is None else {"vocabulary": {"file": path.name, "fingerprint": tokenizer.fingerprint}}


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{SETTING}={path.parent}: no run there ({path.name} is missing); train one first") from None
