"""A run claims its folder by writing config.json when it starts. The file is removed again if the start fails.

A folder belongs to a run from the first logged step or the first checkpoint on. Files of a process that failed or was
killed before that do not count as a run: the corrected command may have another config.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attention_research.config import Config, ConfigError, changes
from attention_research.data import kept
from attention_research.errors import Diverged, RunError
from attention_research.training.metrics_log import read_metrics
from attention_research.training.workdir import LOCK, locked, saved_config, write_text

#: The files that a start writes, besides the empty folder checkpoints/.
_OF_A_START = ("config.json", "environment.json", "error.txt", "metrics.jsonl", kept.DOCUMENT, kept.FOLDER)


def reached(workdir: Path) -> int:
    """The last step that is logged or saved, or -1 if there is none."""
    saved = [int(path.name) for path in (workdir / "checkpoints").glob("*") if path.name.isdecimal()]
    logged = [line["step"] for line in read_metrics(workdir) if line["split"] == "train"]
    return max([*saved, *logged], default=-1)


def check(workdir: Path, config: Config) -> None:
    """Raises ConfigError if the folder is that of a study, or holds a run of another config.

    A larger number of steps and another mesh are allowed, because a checkpoint can be restored on any mesh.
    """
    if os.path.isdir(workdir / "trials"):
        raise ConfigError(f"--workdir={workdir}: the folder of a study (it has trials/); give another folder")
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
    """Calls `check`, then writes config.json."""
    check(workdir, config)
    write_text(workdir / "config.json", config.to_json())


@dataclasses.dataclass
class Claim:
    """The claim of a run that starts: the config that the run had before, and the step that it had `reached`. A run
    that continues from an earlier checkpoint, whose log is cut back to it, lowers `reached`."""

    before: Config
    reached: int = -1


@contextmanager
def claimed(workdir: Path, config: Config) -> Iterator[Claim]:
    """Locks the folder, writes config.json and yields the claim.

    If the block fails before it has logged or saved a step, the folder is restored to its earlier state. The exception
    is Diverged: a run that diverged has started.
    """
    new = not workdir.exists()
    with locked(workdir):
        path, before = workdir / "config.json", reached(workdir)
        text = path.read_text(encoding="utf-8") if before >= 0 and path.exists() else None
        claim(workdir, config)
        mine = Claim(config if text is None else Config.from_json(text), before)
        try:
            yield mine
        except Diverged:
            raise
        except BaseException:
            if reached(workdir) <= mine.reached:
                _take_back(workdir, text, new)
            raise


def _take_back(workdir: Path, text: str | None, new: bool) -> None:
    with contextlib.suppress(OSError, RunError):  # the first error is the one to report
        if text is not None:
            return write_text(workdir / "config.json", text)
        for name in _OF_A_START:
            path = workdir / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the next start deletes a half-written checkpoint
            (workdir / "checkpoints").rmdir()
        if new and [path.name for path in workdir.iterdir()] == [LOCK]:
            (workdir / LOCK).unlink()
            workdir.rmdir()
