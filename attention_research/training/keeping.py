"""Writes what a run keeps of its data (`data.kept`) when it begins, and gives it to the data of one that has begun."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError
from attention_research.data import from_run, kept
from attention_research.data.protocol import Data
from attention_research.training.workdir import write_json, writing

Report = Callable[[str], None]


def begun(workdir: Path) -> bool:
    """Whether the run has a checkpoint: from then on its vocabulary is what it is."""
    return any(path.name.isdecimal() for path in (workdir / "checkpoints").glob("*"))


def take(data: Data, workdir: Path, report: Report) -> bool:
    """Gives the data of a run that has begun what its folder keeps; whether there is any.

    Raises ConfigError where a file of it is missing or damaged, and where code makes other data than it did.
    """
    if not (begun(workdir) and kept.has(workdir)):
        return False
    data.take(data.stored(workdir), report)
    return True


def ready(data: Data, workdir: Path, report: Report) -> None:
    """What a command over a run that has begun does in place of `prepare`: its vocabulary is there, no text is read.

    A run of an earlier version keeps nothing: its vocabulary comes from the data cache, or is trained again on the
    text. Raises ConfigError where it is not the one that the run had.
    """
    if take(data, workdir, report):
        return
    data.prepare(report)
    same_as_recorded(data, workdir)


def same_as_recorded(data: Data, workdir: Path) -> None:
    """Raises ConfigError where the vocabulary is not the one in the environment.json of a run of an earlier version."""
    path = workdir / "environment.json"
    was = json.loads(path.read_text(encoding="utf-8")).get("vocabulary") if path.exists() else None
    now = from_run.recorded(data.tokenizer).get("vocabulary")
    if was is not None and now is not None and was["fingerprint"] != now["fingerprint"]:
        raise ConfigError(
            f"config.data: the text gives the vocabulary {now['fingerprint']}, the run in {workdir} was trained with "
            f"{was['fingerprint']}: the training text has changed since; restore it"
        )


def keep(data: Data, workdir: Path, config: Config, report: Report) -> None:
    """Writes data.json and vocabulary/ of a run that begins with prepared data; says what was left out of the data."""
    folder = workdir / kept.FOLDER
    tokenizer, learned = data.tokenizer, data.learned()
    document: dict[str, Any] = {"data": data.describe(), **data.content()}
    with writing(folder):
        path = getattr(tokenizer, "path", None)
        if path is not None:
            stored = _written(folder, path.name, path.read_bytes())
            section = from_run.section_of(config.resolved["data"])
            document["tokenizer"] = {**stored, "fingerprint": tokenizer.fingerprint, "section": section}
        if learned:
            document["learned"] = _written(folder, kept.LEARNED, json.dumps(learned).encode())
    write_json(workdir / kept.DOCUMENT, document)
    for line in remarks(document.get("facts", {})):
        report(f"data  {line}")


def _written(folder: Path, name: str, data: bytes) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    temporary = folder / f".{name}"
    temporary.write_bytes(data)
    temporary.replace(folder / name)
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest()}


def remarks(found: dict[str, Any]) -> Iterator[str]:
    """The facts that are worth a line.

    >>> list(remarks({"left_out": {"train": {"empty source": 2}}, "cut": {"test": 1}}))
    ['2 examples of train left out: 2 empty source', '1 example of test cut']
    >>> list(remarks({"vocabulary": {"asked": 61, "tokens": 45}}))
    ['the vocabulary has 45 tokens, 61 were asked for']
    """
    for split, reasons in found.get("left_out", {}).items():
        told = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items())
        yield f"{_examples(sum(reasons.values()))} of {split} left out: {told}"
    for split, number in found.get("cut", {}).items():
        yield f"{_examples(number)} of {split} cut"
    for split, count in found.get("repeated", {}).items():
        twice = f"{_examples(count['sources'])} of {split} have a source that is in the training text"
        yield f"{twice}, {count['pairs']:,} with the same target"
    said = found.get("vocabulary")
    if said and said["tokens"] < said["asked"]:
        yield f"the vocabulary has {said['tokens']:,} tokens, {said['asked']:,} were asked for"


def _examples(number: int) -> str:
    return f"{number:,} example{'' if number == 1 else 's'}"
