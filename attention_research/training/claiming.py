"""A run's claim on its folder: config.json, written when the run starts and taken back where the start fails.

A folder is a run's from its first logged step or its first checkpoint on. What a failed start leaves, and what a
process leaves that is killed before that, is no run: the mended command may have another config.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attention_research.config import Config, ConfigError, changes
from attention_research.data import kept
from attention_research.errors import Diverged, RunError
from attention_research.training.workdir import LOCK, locked, read_metrics, saved_config, write_text

#: What a start writes, beside checkpoints/, which it leaves empty.
_OF_A_START = ("config.json", "environment.json", "error.txt", "metrics.jsonl", kept.DOCUMENT, kept.FOLDER)


def reached(workdir: Path) -> int:
    """The last step that is logged or saved; -1 where there is none."""
    saved = [int(path.name) for path in (workdir / "checkpoints").glob("*") if path.name.isdecimal()]
    logged = [line["step"] for line in read_metrics(workdir) if line["split"] == "train"]
    return max([*saved, *logged], default=-1)


def check(workdir: Path, config: Config) -> None:
    """Raises ConfigError where the folder holds a run of another config; more steps are allowed, and other devices (a
    checkpoint is restored on any mesh)."""
    if not os.path.exists(workdir / "config.json") or reached(workdir) < 0:
        return
    before = saved_config(workdir)
    changed = changes(before, config)
    more_steps = config.resolved["training"]["steps"] >= before.resolved["training"]["steps"]
    allowed = ("parallel.mesh.", *(["training.steps:"] if more_steps else []))
    changed = [line for line in changed if not line.startswith(allowed)]
    if changed:
        raise ConfigError(f"{workdir} holds a run of another config ({'; '.join(changed)}); give another --workdir")


def claim(workdir: Path, config: Config) -> None:
    """`check`, then config.json."""
    check(workdir, config)
    write_text(workdir / "config.json", config.to_json())


@contextmanager
def claimed(workdir: Path, config: Config) -> Iterator[Config]:
    """Locks the folder and writes config.json; gives the config that the run had before. A block that fails before it
    has logged or saved a step leaves the folder as it was. A run that diverged has been started."""
    new = not workdir.exists()
    with locked(workdir):
        path, before = workdir / "config.json", reached(workdir)
        text = path.read_text(encoding="utf-8") if before >= 0 and path.exists() else None
        claim(workdir, config)
        try:
            yield config if text is None else Config.from_json(text)
        except Diverged:
            raise
        except BaseException:
            if reached(workdir) <= before:
                _take_back(workdir, text, new)
            raise


def _take_back(workdir: Path, text: str | None, new: bool) -> None:
    with contextlib.suppress(OSError, RunError):  # the first error is the one to tell
        if text is not None:
            return write_text(workdir / "config.json", text)
        for name in _OF_A_START:
            path = workdir / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a half-written checkpoint is the next start's to delete
            (workdir / "checkpoints").rmdir()
        if new and [path.name for path in workdir.iterdir()] == [LOCK]:
            (workdir / LOCK).unlink()
            workdir.rmdir()
