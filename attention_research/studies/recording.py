"""`record`: runs and records the missing and stale trials of many studies, until all are done or the time is over.

Each study runs by `run.run_study` and is recorded when it ends. After an interruption the same command continues.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError, RunError, Stopped
from attention_research.studies.footnotes import markdown_table
from attention_research.studies.night import Work, planned
from attention_research.studies.priority import lowest
from attention_research.studies.run import refuse_installed, refuse_modified_tree, run_study, say
from attention_research.studies.runners.deadline import Deadline
from attention_research.studies.runners.loop import signal_of, terminate_as_interrupt
from attention_research.studies.trial_folders import Folder
from attention_research.training.failure import line_of
from attention_research.training.workdir import Busy, json_text


def record(
    names: Sequence[str] = (),
    *,
    scale: str = "cpu",
    hours: float | None = None,
    jobs: int | None = None,
    stale: str = "rerun",
    order: Path | None = None,
    dry_run: bool = False,
    allow_dirty: bool = False,
    as_json: bool = False,
) -> int:
    """Runs and records the missing trials of all studies, or of those in `names`, and prints a table.

    Ends after at most `hours` hours (None: no limit). Runs `jobs` trials at a time (None: as many as the scale of each
    study says). `stale` and `allow_dirty` are those of `run_study`. `order` is a file with study names by priority
    (`studies.order`). `dry_run` prints the plan and starts nothing. Returns the exit status. Raises ConfigError before
    anything starts, and RunError at the end if a trial or a study failed.
    """
    if hours is not None and not hours > 0:
        raise ConfigError(f"--hours={hours:g}: expected a number above 0")
    if not (allow_dirty or dry_run):
        refuse_modified_tree()
    began = time.monotonic()
    works = planned(names, scale=scale, jobs=jobs, stale=stale, order=order)
    for work in () if dry_run else works:
        refuse_installed(work.study)
    how: dict[str, Any] = {"jobs": jobs, "stale": stale, "allow_dirty": allow_dirty}
    number = None if dry_run else _run(works, _deadline(works, hours), scale=scale, **how)
    if as_json:
        document = {"scale": scale, "hours": hours, "dry_run": dry_run, "seconds": time.monotonic() - began}
        print(json_text({**document, "studies": [work.to_json() for work in works]}, indent=1))
    else:
        print(plan_text(works, scale, hours) if dry_run else outcome_text(works, scale), flush=True)
    if number is not None:
        say(f"{signal.Signals(number).name}: stopped; the same command goes on")
        return 128 + number
    failed = sum(len(work.failed) for work in works)
    broken = [work for work in works if work.error]
    if failed or broken:
        counts = [f"{failed} trials"] if failed else []
        counts += [f"{len(broken)} studies"] if broken else []
        raise RunError(f"{' and '.join(counts)} failed; the same command runs them again")
    return 0


def _deadline(works: Sequence[Work], hours: float | None) -> Deadline | None:
    """The deadline after `hours` hours. A group of trials that train together may start if the shortest trial may."""
    if hours is None:
        return None
    least = {name: cost.least for work in works for name, cost in work.costs.items()}
    return Deadline(3600 * hours, lambda folder: least.get(folder.name, min(least.values(), default=0.0)))


def _run(
    works: Sequence[Work], deadline: Deadline | None, *, scale: str, jobs: int | None, stale: str, **how: Any
) -> int | None:
    """Runs the works and stores the outcome in each. Returns the number of the signal that stopped it, or None."""
    lowest()
    with terminate_as_interrupt():
        for work in works:
            if deadline and not work.unrecorded and not any(deadline.fits(work.folder.trial(t)) for t in work.left):
                work.note = "no time left for any of its trials"
                continue
            try:
                summary = run_study(
                    work.study, scale=scale, jobs=jobs, stale=stale, deadline=deadline, record="new", **how
                )
                work.failed = summary["failed"]
            except Busy:
                work.note = f"another process works in {work.folder.workdir}: skipped"
                say(f"{work.study.name}: {work.note}")
            except (Stopped, KeyboardInterrupt) as stop:
                _record_finished(works, scale, how)
                work.look()
                return stop.number if isinstance(stop, Stopped) else signal_of(stop)
            except Exception as error:
                work.error = line_of(error)
                say(f"{work.study.name}: failed: {work.error}")
            work.look()
        _record_finished(works, scale, how)
    return None


def _record_finished(works: Sequence[Work], scale: str, how: Mapping[str, Any]) -> None:
    """Records finished trials that are not recorded yet: at a stop, or if a later study shares trials."""
    for work in works:
        now = Folder(work.folder.workdir, work.folder.recorded)  # a new Folder reads tables recorded in the meantime
        if any(map(now.unrecorded, work.trials)):
            try:
                run_study(work.study, scale=scale, render=True, record="new", **how)
            except Exception as error:  # the trials remain in their folders
                say(f"{work.study.name}: not recorded: {line_of(error)}")


def plan_text(works: Sequence[Work], scale: str, hours: float | None) -> str:
    """The plan as a table: one line for each study, in order, with its hours and the total hours until its end."""
    lines = [["study", "claims", "missing", "stale", "hours", "until then", "estimated from"]]
    total, reached = 0.0, 0
    for work in works:
        total += work.seconds
        reached += hours is None or total <= 3600 * hours
        counts = [str(work.claims), str(work.missing), str(work.stale)]
        lines.append([work.study.name, *counts, hours_of(work), f"{total / 3600:.2f}", sources(work)])
    trials, unknown = sum(len(work.left) for work in works), sum(work.unknown for work in works)
    said = f"{len(works)} studies, {trials} trials at {scale}: {total / 3600:.2f} hours"
    said += f", without {unknown} trials whose time is unknown" if unknown else ""
    if hours is not None:
        said += f"; {hours:g} hours are enough for the first {reached}" if reached < len(works) else "; all fit"
    return f"{_padded(lines)}\n{said}" if works else f"nothing is missing or stale at {scale}"


def outcome_text(works: Sequence[Work], scale: str) -> str:
    """The outcome as a table: the finished trials, those that are left, and the hours that these will take."""
    lines = [["study", "done", "failed", "left", "hours left", "estimated from", "notes"]]
    for work in works:
        failed = dict.fromkeys(one["error"] for one in work.failed)
        counts = [str(work.done), str(len(work.failed)), str(len(work.left))]
        notes = "; ".join(filter(None, [work.note, work.error, *failed]))
        lines.append([work.study.name, *counts, hours_of(work), sources(work), notes])
    done, left = sum(work.done for work in works), sum(len(work.left) for work in works)
    unknown = sum(work.unknown for work in works)
    said = f"{done} trials done, {left} left at {scale}: {sum(work.seconds for work in works) / 3600:.2f} hours"
    said += f", without {unknown} trials whose time is unknown" if unknown else ""
    return f"{_padded(lines)}\n{said}" if works else f"nothing is missing or stale at {scale}"


def hours_of(work: Work) -> str:
    """The hours of the trials that are left, with "?" for trials of unknown duration."""
    if work.unknown == len(work.left):
        return "?" if work.left else "0"
    return f"{work.seconds / 3600:.2f}" + (" + ?" if work.unknown else "")


def sources(work: Work) -> str:
    """The sources of the estimate, each with its number of trials if there are several."""
    found = work.sources
    return ", ".join(found) if len(found) < 2 else ", ".join(f"{name} {count}" for name, count in found.items())


def _padded(lines: Sequence[Sequence[str]]) -> str:
    """The table with its first and last columns aligned to the left."""
    return markdown_table(lines, left=(0, len(lines[0]) - 1))
