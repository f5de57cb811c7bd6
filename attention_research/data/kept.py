"""The part of its data that a run keeps, so that the run can be used with only its folder and new text.

data.json              a digest and the size of each split; a digest of every file that was read; what was left out
vocabulary/NAME        the file of the tokenizer
vocabulary/learned.json  other data that the model needs: the classes in order, counts of the training text

The files of vocabulary/ are checked against the digests in data.json when they are read. `training.keeping` writes
these files when a run begins, and does not write them again once the run has a checkpoint.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attention_research import registry
from attention_research.data import storage
from attention_research.errors import ConfigError

DOCUMENT, FOLDER, LEARNED = "data.json", "vocabulary", "learned.json"


@runtime_checkable
class HasMarks(Protocol):
    """A choice of text (`prepared.Named`) whose examples have other parts, such as labels or pictures."""

    def marks(self, split: str) -> list[str]:
        """The other part of each example of a split, for its digest."""
        ...


@runtime_checkable
class HasFiles(Protocol):
    """A choice of text that is read from the user's files."""

    def contents(self, split: str) -> list[tuple[str, str]]:
        """The absolute path and the SHA-256 of each file of a split."""
        ...


@runtime_checkable
class LeavesOut(Protocol):
    """A choice of text that leaves out some examples when it is read."""

    def left_out(self) -> dict[str, dict[str, int]]:
        """Split -> reason -> the number of examples left out."""
        ...


@runtime_checkable
class NamesVocabularyText(Protocol):
    """A choice of text whose vocabulary is not that of the training split."""

    def vocabulary_text(self, texts: Mapping[str, tuple[list[str], list[str]]]) -> list[str]:
        """The lines that the vocabulary is made from, given split -> (sources, targets)."""
        ...


class Trained:
    """A trained tokenizer, `stored`. `fit` returns it unchanged, whatever the text."""

    def __init__(self, stored: Any):
        self.stored = stored

    def settings(self) -> dict:
        """The content of the vocabulary, independent of its path."""
        return trained_settings(self.fingerprint)

    def fit(self, lines: Sequence[str], report: Callable[[str], None] = lambda line: None) -> Trained:
        """Does nothing: the tokenizer is trained."""
        return self

    def load(self, path: Path) -> Trained:
        """Returns the same vocabulary; the path is a copy of it."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "stored" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.stored, name)


def trained_settings(fingerprint: str) -> dict[str, str]:
    """The settings of any trained tokenizer."""
    return {"kind": "from_run", "vocabulary": fingerprint}


@dataclasses.dataclass(frozen=True)
class Kept:
    """The kept data of the run `run`: data.json as `document`, a `Trained` tokenizer or None, learned.json."""

    run: Path
    document: Mapping[str, Any]
    tokenizer: Any
    learned: Mapping[str, Any]

    @property
    def splits(self) -> Mapping[str, Any]:
        """Split -> {"digest", "examples"}."""
        return self.document["splits"]

    def files(self, split: str) -> list[str]:
        """The absolute paths of the files that a split was read from; empty for a set by name."""
        return [path for path, _ in self.contents(split)]

    def contents(self, split: str) -> list[tuple[str, str]]:
        """The absolute path of each of these files, and its SHA-256 when the run began."""
        return [(file["path"], file["sha256"]) for file in self.document.get("files", {}).get(split, ())]

    def check(self, split: str, digest: str, contents: Sequence[tuple[str, str]]) -> None:
        """Raises ConfigError if the text of a split is not the one that the run began with.

        `contents` are the path and the current digest of each of its files.
        """
        if self.splits[split]["digest"] == digest:
            return
        before = self.contents(split)
        changed = [path for (path, now), (_, then) in zip(contents, before, strict=False) if now != then]
        what = " and ".join(changed) or f"the {split} text"
        hint = "restore it, or train in another --workdir"
        if split == "test":
            hint = "restore it, or evaluate other pairs with --files=SOURCE,TARGET"
        raise ConfigError(f"config.data.{split}: {what} has changed since the run in {self.run} began; {hint}")

    def same(self, learned: Mapping[str, Any]) -> None:
        """Raises ConfigError if data that code generates differ from those that the run was trained on."""
        now = json.loads(json.dumps(learned))
        changed = [name for name, value in now.items() if self.learned.get(name, value) != value]
        if changed:
            raise ConfigError(
                f"config.data: {changed[0]} are not those that the run in {self.run} was trained with; "
                "use the version of the package that trained it"
            )


def has(run: Path) -> bool:
    """Whether the folder of a run has kept data."""
    return (run / DOCUMENT).exists()


def read_document(run: Path) -> dict[str, Any]:
    """The content of a run's data.json. Raises ConfigError if it is damaged."""
    return _json(run / DOCUMENT, (run / DOCUMENT).read_bytes())


def copy(run: Path, folder: Path) -> None:
    """Copies the kept data of a run, if there are any, to another folder."""
    if has(run):
        if (run / FOLDER).exists():
            shutil.copytree(run / FOLDER, folder / FOLDER, dirs_exist_ok=True)
        shutil.copyfile(run / DOCUMENT, folder / DOCUMENT)


def read(run: Path, make: Callable[[], Any] | None = None) -> Kept:
    """The kept data of the run in this folder. `make` makes an untrained tokenizer of a kind that no config names.

    Raises ConfigError, one line, if a file is missing or damaged.
    """
    document = read_document(run)
    tokenizer, learned = None, {}
    said = document.get("tokenizer")
    if said is not None:
        path = run / FOLDER / said["file"]
        _whole(path, said["sha256"])
        section = said["section"]
        if section is not None:
            settings = {name: value for name, value in section.items() if name != "kind"}
            untrained = registry.lookup("tokenizer", section["kind"])(**settings)
        elif make is not None:
            untrained = make()
        else:
            raise ConfigError(f"{run}: its tokenizer has no kind that other data could take")
        tokenizer = Trained(untrained.load(path))
    if "learned" in document:
        path = run / FOLDER / LEARNED
        learned = _json(path, _whole(path, document["learned"]["sha256"]))
    return Kept(run, document, tokenizer, learned)


def _whole(path: Path, sha256: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; the run cannot be used without it, restore it") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ConfigError(f"{path}: damaged (not the file whose SHA-256 {DOCUMENT} holds); restore it")
    return data


def _json(path: Path, data: bytes) -> dict[str, Any]:
    try:
        return json.loads(data)
    except ValueError as error:
        raise ConfigError(f"{path}: damaged ({error}); restore it") from None


def digest(choice: Any, split: str, sides: Sequence[Sequence[str]]) -> str:
    """A hash of the text of a split, and of the other parts of its examples (`marks` of the choice)."""
    marks = [choice.marks(split)] if isinstance(choice, HasMarks) else []
    return storage.content_hash(split, *sides, *marks)
