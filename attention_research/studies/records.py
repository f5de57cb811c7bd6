"""Records: the file ``trials.jsonl`` beside a study, which holds all finished trials of a table at a scale.

Each trial is one line, so that a change of one trial changes one line of the file. A value that several trials share is
written once, at the top, under the first digits of its hash::

    {"$shared":"5e1a0c3f92d4","value":{"backend":"cpu",...}}
    {"curves":{...},"environment":{"$shared":"5e1a0c3f92d4","date":"2026-11-21T17:18:13+00:00"},...}

Shared values are the environment of a trial without its date, its program without the hash of its config, its config
without its seed, and every long text, list or dictionary of a stage that two trials have, such as the source of a
sample or an image. Keys are sorted, and numbers are written as Python writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attention_research.training.workdir import write_text

FILE = "trials.jsonl"
_SHARED = "$shared"
#: The least length, in characters of JSON, of a text and of a list or dictionary of a stage that is shared.
_LONG_TEXT, _LONG = 60, 1000


def read(folder: Path) -> Mapping[str, dict[str, Any]]:
    """The trials recorded in a folder, by id. The file is parsed again only after it has changed.

    A damaged line is skipped, so that its trial runs again. The returned dictionaries are cached: do not modify them.
    """
    path = folder / FILE
    try:
        found = os.stat(path)
    except OSError:
        return _one_file_a_trial(folder)
    version = (found.st_mtime_ns, found.st_size, found.st_ino)
    if path not in _CACHE or _CACHE[path][0] != version:
        _CACHE[path] = (version, parse(path.read_bytes()))
    return _CACHE[path][1]


_CACHE: dict[Path, tuple[tuple[int, int, int], dict[str, dict[str, Any]]]] = {}


def recorded(experiments: Path) -> list[Path]:
    """The folders of all records under ``experiments/``."""
    return sorted(path.parent for path in experiments.glob(f"*/results/*/*/{FILE}"))


def is_result(value: Any) -> bool:
    """Whether a value is the result of a trial.

    >>> is_result({"stages": {}}), is_result([])
    (True, False)
    """
    return isinstance(value, dict) and isinstance(value.get("stages", {}), dict)


def text(folder: Path, results: Iterable[Mapping[str, Any]]) -> str:
    """The text of a folder's record with some trials added. Trials with the same ids are replaced."""
    return text_of(list({**read(folder), **{result["id"]: result for result in results}}.values()))


def write(folder: Path, text: str) -> None:
    """Writes this text as the record of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, text)
    shutil.rmtree(folder / "trials", ignore_errors=True)


def _one_file_a_trial(folder: Path) -> dict[str, dict[str, Any]]:
    """A record in the format of earlier versions, ``trials/<id>.json``. The next `write` replaces it."""
    found = {}
    for path in sorted((folder / "trials").glob("*.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if is_result(result):
            found[path.stem] = result
    return found


def parse(text: str | bytes) -> dict[str, dict[str, Any]]:
    """The trials in the text of a record, by id.

    >>> parse(text_of([{"id": "a", "seed": 0, "stages": {}}]))["a"]["seed"]
    0
    """
    shared: dict[str, Any] = {}

    def resolved(value: dict[str, Any]) -> Any:
        if _SHARED not in value or "value" in value:
            return value
        common = shared[value.pop(_SHARED)]
        return _merged(common, value) if value else common

    decoder = json.JSONDecoder(object_hook=resolved)
    trials = {}
    for line in (text.encode("utf-8") if isinstance(text, str) else text).split(b"\n"):
        try:
            found = decoder.decode(line.decode("utf-8"))
            if _SHARED in found:
                shared[found[_SHARED]] = found["value"]
            elif is_result(found):
                trials[found["id"]] = found
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return trials


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    deeper = {
        name: _merged(common[name], value) if isinstance(value, dict) and isinstance(common.get(name), dict) else value
        for name, value in own.items()
    }
    return {**common, **deeper}


def text_of(trials: Iterable[Mapping[str, Any]]) -> str:
    """The text of a record that holds exactly these trials."""
    trials = sorted(trials, key=_place)
    counts = Counter(key for trial in trials for key in set(_long(trial.get("stages", {}))))
    shared: dict[str, str] = {}
    lines = [_line(_shortened(trial, counts, shared)) for trial in trials]
    head = [f'{{"{_SHARED}":"{key}","value":{value}}}' for key, value in sorted(shared.items())]
    return "\n".join([*head, *lines]) + "\n"


def _place(trial: Mapping[str, Any]) -> tuple[str, int, float, str]:
    point = trial.get("point")
    return trial.get("row") or "", trial.get("seed") or 0, -1 if point is None else point, trial["id"]


def _line(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate becomes its escape in JSON


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def _long(value: Any) -> Iterator[str]:
    """The hash of each long text, list and dictionary inside a value."""
    if not isinstance(value, str | dict | list) or len(text := _line(value)) < _LONG_TEXT:
        return
    if isinstance(value, str) or len(text) >= _LONG:
        yield _key(text)
    if not isinstance(value, str):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _long(inner)


def _shortened(trial: Mapping[str, Any], counts: Mapping[str, int], shared: dict[str, str]) -> dict[str, Any]:
    """The trial with references in place of shared values. Adds the shared values to `shared`."""

    def reference(value: Any, own: Mapping[str, Any]) -> dict[str, Any]:
        text = _line(value)
        shared[_key(text)] = text
        return {_SHARED: _key(text), **own}

    def replaced(value: Any) -> Any:
        if not isinstance(value, str | dict | list) or len(text := _line(value)) < _LONG_TEXT:
            return value
        if counts[_key(text)] > 1:
            return reference(value, {})
        if isinstance(value, str):
            return value
        return {k: replaced(v) for k, v in value.items()} if isinstance(value, dict) else [replaced(v) for v in value]

    result = {**trial, "stages": {name: replaced(value) for name, value in trial.get("stages", {}).items()}}
    if environment := trial.get("environment"):
        date = {name: value for name, value in environment.items() if name == "date"}
        result["environment"] = reference({k: v for k, v in environment.items() if k not in date}, date)
    if program := trial.get("program"):
        config = {name: value for name, value in program.items() if name.split(".")[-1] == "config"}
        result["program"] = reference({k: v for k, v in program.items() if k not in config}, config)
    if given := trial.get("given"):
        training = given.get("training", {})
        if "seed" in training:
            rest = {**given, "training": {name: value for name, value in training.items() if name != "seed"}}
            result["given"] = reference(rest, {"training": {"seed": training["seed"]}})
    return result
