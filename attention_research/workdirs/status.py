"""`status`: one line for each run and study under a folder, read from their files and locks."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attention_research.config import ConfigError
from attention_research.errors import printable
from attention_research.studies.progress import last_entries
from attention_research.training.ending import has_ended
from attention_research.training.failure import line_of
from attention_research.workdirs.reading import (
    in_use,
    is_run,
    is_study,
    nearest_folder,
    read_json,
    saved_config,
    seconds_a_step,
)

_TITLES = ("folder", "state", "step", "loss", "steps/s", "left", "last line", "")


@dataclasses.dataclass(frozen=True)
class Line:
    """The status of a run, a study or a trial. Times are in seconds; None means unknown.

    ``state`` is running, finished, stopped (the same command continues it), failed, waiting (a trial of a running
    study), or unreadable. ``age`` is the time since the last log line or result was written.
    """

    folder: str
    kind: str
    state: str
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    steps_per_second: float | None = None
    left: float | None = None
    age: float | None = None
    note: str = ""

    def cells(self) -> list[str]:
        """The cells of the line as texts, in the order of `_TITLES`."""
        return [
            printable(self.folder),
            self.state,
            "" if self.steps is None else f"{self.step or 0:,}/{self.steps:,}",
            "" if self.loss is None else f"{self.loss:.3f}",
            "" if self.steps_per_second is None else f"{self.steps_per_second:.3g}",
            "" if self.left is None else duration(self.left),
            "" if self.age is None else f"{duration(self.age)} ago",
            printable(self.note),
        ]


def status(folders: Sequence[Path]) -> list[Line]:
    """The runs and studies in some folders. A study that is one of `folders` is listed with its trials.

    Raises ConfigError for a folder that does not exist.
    """
    lines: list[Line] = []
    for folder in folders:
        if not os.path.isdir(folder):
            hint = nearest_folder(folder) or "; give one with runs, such as runs/"
            raise ConfigError(f"{folder}: no such folder{hint}")
        if is_study(folder):
            lines += [_said(study_line, folder), *(_said(run_line, one) for one in [*groups(folder), *trials(folder)])]
        else:
            lines += [_line_of(found) for found in _find(folder)]
    return lines


def _line_of(found: Path | Line) -> Line:
    return found if isinstance(found, Line) else _said(study_line if is_study(found) else run_line, found)


def _said(line: Callable[[Path], Line], folder: Path) -> Line:
    """The line of a folder. An unreadable folder gets a line with the error, so that the others are still listed."""
    try:
        return line(folder)
    except Exception as error:
        return _unreadable(folder, error)


def _unreadable(folder: Path, error: Exception) -> Line:
    note = error.strerror if isinstance(error, OSError) and error.strerror else line_of(error)
    return Line(str(folder), "run", "unreadable", note=note)


def text(lines: Sequence[Line]) -> str:
    """The lines in columns, below their titles."""
    cells = [list(_TITLES), *(line.cells() for line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = range(2, 7)
    padded = (
        "  ".join(x.rjust(w) if i in numbers else x.ljust(w) for i, (x, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    )
    return "\n".join(line.rstrip() for line in padded)


def duration(seconds: float) -> str:
    """A duration in a readable form.

    >>> duration(7.2), duration(200), duration(9000), duration(400000)
    ('7 s', '3:20', '2:30:00', '4.6 days')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 48 * 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{seconds / 86400:.1f} days"


def _find(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path | Line]:
    """The runs and studies in a folder and its subfolders, by name. Does not look inside a run or a study.

    Follows symbolic links, except to a folder that contains the link. A folder that cannot be searched gives a line.
    """
    if is_run(folder) or is_study(folder):
        yield folder
        return
    try:
        place = folder.resolve()
        if any(one.is_relative_to(place) for one in above):
            return
        with os.scandir(folder) as entries:
            inner = sorted(e.name for e in entries if _is_folder(e) and not e.name.startswith("."))
    except (OSError, RuntimeError) as error:
        yield _unreadable(folder, error)
        return
    for name in inner:
        yield from _find(folder / name, (*above, place))


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def trials(study: Path) -> list[Path]:
    """The folders of the trials of a study."""
    return sorted(path.parent for path in study.glob("trials/*/trial.json"))


def groups(study: Path) -> list[Path]:
    """The folders of unfinished groups of a study: trials that train together."""
    found = sorted(path.parent for path in study.glob("groups/*/trial.json"))
    return [folder for folder in found if not (folder / "result.json").exists()]


def run_line(folder: Path) -> Line:
    """The line of a run. For a trial of a study, it adds the row, the seed and the current stage."""
    trial = read_json(folder / "trial.json")
    kind, name = ("trial", f"{trial.get('name')} · seed {trial.get('seed')}") if trial else ("run", "")
    steps = trial.get("steps") if type(trial.get("steps")) is int else None
    early = False
    if is_run(folder):
        try:
            training = saved_config(folder).resolved["training"]
            steps, stop = training["steps"], [training.get(name) for name in ("stop_at", "stop_by", "stop_checks")]
            early = stop[0] is not None and has_ended(folder, *stop)  # configs of earlier versions lack them
        except ConfigError as error:
            return Line(str(folder), kind, "unreadable", note=str(error))
    entries = last_entries(folder / "metrics.jsonl")
    step = entries[-1]["step"] if entries else 0
    losses = [line["loss"] for line in entries if line["step"] == step and "loss" in line]
    a_step = seconds_a_step(entries)
    state, said = _state(folder, step, step if early else steps, bool(trial))
    left = (steps - step) * a_step if state == "running" and a_step and steps and step < steps else None
    return Line(
        str(folder),
        kind,
        state,
        step=step if steps else None,
        steps=steps,
        loss=statistics.fmean(losses) if losses else None,
        steps_per_second=1 / a_step if a_step else None,
        left=left,
        age=_age(folder),
        note=" · ".join(filter(None, [name, said])),
    )


def _state(folder: Path, step: int, steps: int | None, is_trial: bool) -> tuple[str, str]:
    """(state, note) of a run or a trial."""
    if in_use(folder):
        return "running", ""
    result = read_json(folder / "result.json") if is_trial else {}
    if result and "failed" not in result:
        return "finished", "diverged" if result.get("diverged") else ""
    if (folder / "error.txt").exists():
        return "failed", (folder / "error.txt").read_text(encoding="utf-8", errors="replace").strip()
    if is_trial:  # the worker locks the trial only while it trains, and a lock of another machine may not be visible
        stage = read_json(folder / "progress.json").get("stage", "")
        if in_use(folder.parent.parent):
            return ("running", "" if stage == "train" else stage) if stage else ("waiting", "")
        return "stopped", ""
    done = step == steps and (folder / "checkpoints" / str(steps)).is_dir()
    return ("finished" if done else "stopped"), ""


def study_line(folder: Path) -> Line:
    """The line of a study, with the number of its trials in each state."""
    found = [(trial, _trial_state(trial)) for trial in trials(folder)]
    count = {state: sum(s == state for _, s in found) for state in ("finished", "running", "failed", "waiting")}
    ages = [age for trial, _ in found if (age := _age(trial)) is not None]
    if in_use(folder):
        state = "running"
    else:
        state = "finished" if count["finished"] == len(found) else "failed" if count["failed"] else "stopped"
    said = [f"{count['finished']} of {len(found)} trials" if found else "no trials"]
    said += [f"{count[name]} {name}" for name in ("running", "failed", "waiting") if count[name]]
    return Line(str(folder), "study", state, age=min(ages, default=None), note=", ".join(said))


def _trial_state(trial: Path) -> str:
    try:
        return _state(trial, 0, None, True)[0]
    except (OSError, ValueError, AttributeError):
        return "failed"


def _age(folder: Path) -> float | None:
    times = []
    for name in ("metrics.jsonl", "evaluation.json", "result.json", "error.txt", "progress.json"):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(0.0, time.time() - max(times)) if times else None


def as_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines as objects for `--json`."""
    return [dataclasses.asdict(line) for line in lines]
