"""Stores the vocabulary and a record of the data in a run's folder (`data.kept`), and loads them when it continues."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attention_research.config import Config, ConfigError
from attention_research.data import from_run, kept
from attention_research.data.protocol import Data
from attention_research.training.workdir import read_environment, write_json, writing

Report = Callable[[str], None]


def begun(workdir: Path) -> bool:
    """Whether the run has a checkpoint. From then on its vocabulary cannot change."""
    return any(path.name.isdecimal() for path in (workdir / "checkpoints").glob("*"))


def take(data: Data, workdir: Path, report: Report) -> bool:
    """Loads the stored vocabulary and record of a run that has begun into `data`. Returns whether the run has them.

    Raises ConfigError if one of its files is missing or damaged, or if the code now generates other data.
    """
    if not (begun(workdir) and kept.has(workdir)):
        return False
    data.take(data.stored(workdir), report)
    return True


def ready(data: Data, workdir: Path, report: Report) -> None:
    """Prepares the data of a run that has begun from its stored vocabulary, without reading the text.

    Commands over an existing run call this function instead of `prepare`. A run of an earlier version has no stored
    vocabulary. It is then read from the data cache or trained again on the text. Raises ConfigError if the vocabulary
    differs from that of the run.
    """
    if take(data, workdir, report):
        return
    data.prepare(report)
    same_as_recorded(data, workdir)


def same_as_recorded(data: Data, workdir: Path) -> None:
    """Raises ConfigError if the vocabulary differs from the one that environment.json of the run records.

    Used for runs of earlier versions, which have no stored vocabulary.
    """
    was = read_environment(workdir).get("vocabulary")
    now = from_run.recorded(data.tokenizer).get("vocabulary")
    if was is not None and now is not None and was["fingerprint"] != now["fingerprint"]:
        raise ConfigError(
            f"config.data: the text gives the vocabulary {now['fingerprint']}, the run in {workdir} was trained with "
            f"{was['fingerprint']}: the training text has changed since; restore it"
        )


def keep(data: Data, workdir: Path, config: Config, report: Report) -> None:
    """Writes data.json and vocabulary/ of a new run with prepared data, and reports which examples were left out."""
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
    """The facts about the data that are reported, one line each.

    >>> list(remarks({"left_out": {"train": {"empty source": 2}}, "cut": {"test": 1}}))
    ['2 examples of train left out: 2 empty source', '1 example of test cut']
    >>> list(remarks({"repeated": {"test": {"sources": 3, "pairs": 1}}}))
    ['3 examples of test have a source that is in the training text, 1 with the same target']
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
        asked, tokens = said["asked"], said["tokens"]
        fills = "is too small for this vocabulary: it fills only" if 2 * tokens < asked else "fills"
        given = f"the training text {fills} {tokens:,} of {asked:,} tokens"
        unused = f"the other {asked - tokens:,} rows of the model's tables are never trained"
        yield f"{given}, and {unused}; set --config.vocabulary_size={tokens} or less, or use more text"


def _examples(number: int) -> str:
    return f"{number:,} example{'' if number == 1 else 's'}"
