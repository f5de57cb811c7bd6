"""Writes environment.json: the process that trains a run, and the earlier processes of a run that was continued."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_research.training.workdir import write_json

#: Entries about the whole run, which are not repeated for each process.
_OF_THE_RUN = ("initial", "imported")


def record(workdir: Path, process: Mapping[str, Any], step: int) -> None:
    """Writes the entries of the process that trains the run from `step` on.

    A continued run (`step` above 0) also has "from_step", and "earlier" with the entries of the processes before this
    one, the first first.
    """
    path, document = workdir / "environment.json", dict(process)
    if step:
        before = _read(path)
        earlier = before.pop("earlier", [])
        last = [{name: value for name, value in before.items() if name not in _OF_THE_RUN}] if before else []
        document |= {"from_step": step, "earlier": [*earlier, *last]}
    write_json(path, document)


def _read(path: Path) -> dict[str, Any]:
    """The document of a file; empty if it is missing or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
