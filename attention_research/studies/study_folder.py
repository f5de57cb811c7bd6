"""A study's folder: not that of a run, and perhaps shared by several studies.

Trials have content addresses, so that studies may share a folder and the trials in it. The table, figures, page and
summary.json in it are those of the study that ran last. summary.json names that study.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from attention_research.config import ConfigError
from attention_research.config.values import spell
from attention_research.studies.study import Study

SUMMARY = "summary.json"


def check(workdir: Path) -> None:
    """Raises ConfigError if the folder is that of a run."""
    if os.path.isfile(workdir / "config.json"):
        raise ConfigError(f"--workdir={workdir}: the folder of a run (it has config.json); give another folder")


def identity(study: Study, scale: str) -> dict[str, str]:
    """The entries of summary.json that name the study. "made" describes a study without a file."""
    file = {"file": str(study.path.resolve())} if study.own and study.path else {}
    return {"study": study.name, **file, "scale": scale, **({} if study.path else {"made": _made(study, scale)})}


def _made(study: Study, scale: str) -> str:
    """What made the folder: a sweep in words, without its values and seeds, which a later command may extend; the
    command of a search, whose rows are not known before; or the title of a budget."""
    if not study.rows:
        return study.notes[0]
    if study.name != "sweep":
        return study.title
    return ", ".join([study.title, *(f"{path}={spell(x)}" for path, x in study.scale(scale).overrides.items())])


def replaced(workdir: Path, study: Study, scale: str) -> str | None:
    """The line that says whose table this study will replace, if the table in the folder is another one's."""
    try:
        before: Any = json.loads((workdir / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    mine = identity(study, scale)
    if not isinstance(before, dict) or "study" not in before:
        return None
    named = before["study"] == mine["study"] or before.get("file", "") == mine.get("file")
    if named and before.get("scale") == scale and before.get("made", mine.get("made")) == mine.get("made"):
        return None
    whose = before.get("made") or f"{before['study']} at {before.get('scale')}"
    return f"{workdir}: replaces the table, figures and page of {whose}; its trials stay"
