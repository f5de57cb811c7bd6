"""A study's folder belongs to one study at one scale, or to one sweep. Its summary.json names it from the start."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from attention_research.config import ConfigError
from attention_research.config.annotations import spell
from attention_research.studies.study import Study
from attention_research.studies.trial_folders import write_json

SUMMARY = "summary.json"


def identity(study: Study, scale: str) -> dict[str, str]:
    """The entries of summary.json that say whose folder it is. "made" describes a study without a file."""
    file = {"file": str(study.path.resolve())} if study.own and study.path else {}
    return {"study": study.name, **file, "scale": scale, **({} if study.path else {"made": _made(study, scale)})}


def _made(study: Study, scale: str) -> str:
    """A sweep in words, without its values and seeds, which may become more; the command of a search, which draws its
    rows; and the title of a budget."""
    if not study.rows:
        return study.notes[0]
    if study.name != "sweep":
        return study.title
    return ", ".join([study.title, *(f"{path}={spell(x)}" for path, x in study.scale(scale).overrides.items())])


def check(workdir: Path, study: Study, scale: str) -> None:
    """Raises ConfigError if the folder holds a run, another study, another scale, or a sweep that this one does not
    continue."""
    if os.path.isfile(workdir / "config.json"):
        raise ConfigError(f"--workdir={workdir}: the folder of a run (it has config.json); give another folder")
    before, mine = _read(workdir), identity(study, scale)
    if "study" not in before:
        return
    named = before["study"] == mine["study"] or before.get("file", "") == mine.get("file")
    if not named or before.get("scale") != scale or before.get("made", mine.get("made")) != mine.get("made"):
        holds = before.get("made") or f"{before['study']} at {before.get('scale')}"
        raise ConfigError(f"--workdir={workdir}: the folder of {holds}; give another folder")
    if study.name == "sweep" and study.rows:
        ids = {row.id for row in study.rows}
        gone = next((row["id"] for row in before.get("rows", ()) if row["id"] not in ids), None)
        if gone is not None:
            raise ConfigError(
                f"--workdir={workdir}: the sweep there has the row {gone}, which this one lacks; give another folder"
            )


def claim(workdir: Path, study: Study, scale: str) -> None:
    """Writes whose folder it is before the first trial starts, if no summary says so yet."""
    if "study" not in _read(workdir):
        write_json(workdir / SUMMARY, identity(study, scale))


def _read(workdir: Path) -> dict[str, Any]:
    try:
        found = json.loads((workdir / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
