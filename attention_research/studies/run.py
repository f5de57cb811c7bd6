"""`reproduce`: runs the missing trials of a study at a scale, then writes and prints its results.

Finished trials are not run again, whether they are in the study's folder or recorded beside the study. Each run
rebuilds the table, the figures and the page from all finished trials, so that a table can grow over many sessions.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attention_research import bundled
from attention_research.config import ConfigError, build, resolve
from attention_research.errors import Stopped
from attention_research.studies import finetuning, floors, results, study_folder, table_record
from attention_research.studies.loading import load_study
from attention_research.studies.progress import Progress
from attention_research.studies.runners import find_executor
from attention_research.studies.runners.deadline import Deadline
from attention_research.studies.runners.loop import run as run_trials
from attention_research.studies.runners.loop import signal_of
from attention_research.studies.staleness import Stale, states_of
from attention_research.studies.study import Study
from attention_research.studies.summary import answer, publish
from attention_research.studies.trial_folders import Folder, write_json
from attention_research.studies.trials import Trial
from attention_research.training import environment
from attention_research.training.environment import fingerprint
from attention_research.training.workdir import locked

RUNS = Path("runs")


def reproduce(study: str | Study, *, scale: str = "cpu", as_json: bool = False, **options: Any) -> int:
    """`run_study` as a command: progress on standard error, the table and the paths of files on standard output.

    Takes the options of `run_study`. With ``as_json`` it prints the summary as one JSON document instead. Returns the
    exit status. Raises `ConfigError` before anything starts, and `RunError` at the end if a trial failed.
    """
    return answer(run_study(study, scale=scale, **options), as_json=as_json)


def run_study(
    study: str | Study,
    *,
    scale: str = "cpu",
    rows: Sequence[str] | None = None,
    seeds: int | None = None,
    runner: str = "local",
    jobs: int | None = None,
    machines: Mapping[str, Any] | None = None,
    workdir: Path | None = None,
    record: bool | str = False,
    allow_dirty: bool = False,
    render: bool = False,
    stale: str = "keep",
    ignore_records: bool = False,
    deadline: Deadline | None = None,
) -> dict[str, Any]:
    """Runs the missing trials of a study at a scale, and writes the study's folder.

    Returns the summary, with failed trials under "failed". Raises `ConfigError` before anything starts.

    - ``rows`` are the ids of the rows to run; "floors" runs only the floors. The table still shows all rows.
    - ``seeds`` and ``jobs`` replace those of the scale. ``machines`` are settings of the runner (`runners`).
    - ``stale`` says what happens to trials whose program has changed: "keep" marks them, "rerun" runs them again.
    - ``render`` rewrites the table, figures and page without running trials.
    - ``record`` writes the finished trials beside the study, with the table, verdicts and figures that follow from
      them. With "new" it does so only if a trial is not recorded yet. A modified tree needs ``allow_dirty``.
    - ``ignore_records`` also runs trials that are recorded.
    - With a ``deadline`` some trials may stay unfinished.
    """
    if record and not allow_dirty:
        refuse_modified_tree()
    study = load_study(study) if isinstance(study, str) else study
    if record:
        refuse_installed(study)
    size = study.scale(scale)
    wanted = floors.wanted(study, scale, rows)
    seeds = None if seeds is None else _at_least_one("seeds", seeds)
    if record and (seeds or 0) > size.most_seeds:
        raise ConfigError(f"seeds: expected at most {size.most_seeds}, those of a record at {scale}, got {seeds}")
    jobs = size.jobs if jobs is None and runner == "local" else jobs  # the default of a cluster is its own
    jobs = None if jobs is None else _at_least_one("jobs", jobs)
    if stale not in ("keep", "rerun"):
        raise ConfigError(f"stale: {stale!r} is neither keep nor rerun")
    executor = find_executor(runner, jobs=jobs, **(machines or {}))
    trials = recordable = floors.plan_with_floors(study, scale, study.rows_at(scale), seeds, fingerprint())
    if record and seeds is not None:
        recordable = floors.plan_with_floors(study, scale, study.rows_at(scale), None, fingerprint())
    workdir = workdir or RUNS / f"{study.slug}-{scale}"
    beside = study.record(scale)
    folder = Folder(workdir, None if ignore_records else beside)
    study_folder.check(workdir)
    failed: list[dict[str, str]] = []
    with locked(workdir):
        if (line := study_folder.replaced(workdir, study, scale)) is not None:
            say(line)
        if not render:
            chosen = floors.chosen(trials, wanted)
            todo = pending(chosen, folder, stale)
            say(_heading(study, scale, chosen, todo, workdir))
            prepare_data(todo)
            failed = _run(executor, chosen, todo, folder, deadline, rerun=stale == "rerun", together=size.replicas)
        found = results.collect(study, scale, trials, folder, say)
        summary = {**publish(found, workdir), "failed": failed}
        write_json(workdir / study_folder.SUMMARY, summary)
        if record and beside is not None:
            whole = Folder(workdir, beside)
            if record != "new" or any(map(whole.unrecorded, recordable)):
                table_record.write(study, scale, recordable, whole, say)
    return summary


def refuse_modified_tree() -> None:
    """Raises ConfigError if tracked files differ from the commit, whose revision would not describe the record."""
    files = environment.modified()
    if files:
        named = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        raise ConfigError(f"--record: modified files: {named}; commit or stash them, or give --allow-dirty")


def refuse_installed(study: Study) -> None:
    """Raises ConfigError for a study of an installed package, whose records can only be written in a checkout."""
    if not study.own and not bundled.in_checkout():
        raise ConfigError(f"--record: {study.name} comes with the installed package; record it in a checkout")


def pending(trials: list[Trial], folder: Folder, stale: str) -> list[Trial]:
    """The trials to run, without duplicates (rows with equal settings share a trial)."""
    found = {trial.id: (trial, folder.result(trial)) for trial in reversed(trials)}
    missing = {id for id, (_, result) in found.items() if result is None or "failed" in result}
    if stale == "rerun":
        finished = [
            (trial, result) for id, (trial, result) in found.items() if result is not None and id not in missing
        ]
        states = states_of(finished, say)
        missing |= {trial.id for (trial, _), state in zip(finished, states, strict=True) if isinstance(state, Stale)}
    return [found[id][0] for id in dict.fromkeys(trial.id for trial in trials) if id in missing]


def _run(
    executor: Any,
    trials: list[Trial],
    todo: list[Trial],
    folder: Folder,
    deadline: Deadline | None,
    *,
    rerun: bool,
    together: bool,
) -> list[dict[str, str]]:
    """Runs the trials `todo`, and returns the failed ones. With `together`, similar trials train in groups."""
    if not todo:
        return []
    done = {trial.id for trial in trials} - {trial.id for trial in todo}
    shown = list({trial.id: trial for trial in trials}.values())
    folders = {trial.id: folder.prepare(trial, rerun_stale=rerun) for trial in todo}
    try:
        with Progress(shown, folder, done) as progress:
            order = _in_order(todo, folder, folders, progress) if together else None
            wanted, report = (order, order.report) if order else (folders.values(), progress.report)
            outcome = run_trials(executor, wanted, folder.workdir, report, progress.tick, deadline=deadline)
    except KeyboardInterrupt as stop:
        raise stopped(stop, folder.workdir) from None
    named = {folder.trial(trial): trial for trial in todo}
    return [
        {"id": named[path].id, "row": named[path].row, "error": line}
        for path, line in outcome.items()
        if line != "done" and path in named  # if a group fails, its trials run separately
    ]


def stopped(stop: KeyboardInterrupt, workdir: Path) -> Stopped:
    """The error for a signal that has stopped the trials in this folder."""
    return Stopped(f"stopped; the same command continues from {workdir}", signal_of(stop))


def _in_order(todo: list[Trial], folder: Folder, folders: Mapping[str, Path], progress: Progress) -> Any:
    """The folders of groups and trials in the order in which they run. Adds the groups to the progress display."""
    from attention_research.studies import groups  # imports JAX

    found = {}
    for group in groups.grouped(todo, folder):
        place = groups.prepare(group, folder)
        found[place] = group
        progress.add(group.trial, place)
    return groups.InOrder(folders, found, progress.report)


def _heading(study: Study, scale: str, trials: list[Trial], todo: list[Trial], workdir: Path) -> str:
    count, points = len({trial.id for trial in trials}), len({trial.point for trial in trials})
    pairs = {(trial.row, trial.seed) for trial in trials if trial.row != floors.FLOORS}
    seeds = Counter(row for row, _ in pairs)
    rows, size = len(seeds), "the floors alone"
    if seeds:
        least, most = min(seeds.values()), max(seeds.values())
        size = f"{rows} rows x {least if least == most else f'{least} to {most}'} seed{'s' if most > 1 else ''}"
    size += f" x {points} points" if points > 1 else ""
    done = f"{count} trials, {count - len(todo)} already done"
    if len({trial.row for trial in todo} - {floors.FLOORS}) < rows and todo:
        done = f"{count} trials, {len(todo)} to run"
    return f"{study.name} · {scale} · {size} · {done} · {workdir}"


def say(line: str) -> None:
    """Prints a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def prepare_data(trials: list[Trial], seen: list[Any] | None = None) -> None:
    """Prepares every data set that the trials need, before any of them starts. Skips data in `seen`, and adds to it."""
    seen = [] if seen is None else seen
    for trial in trials:
        section = None if trial.given is None else resolve(trial.given).resolved["data"]
        if section is not None and section not in seen:
            seen.append(section)
            say(f"data  {build(section, 'data')().prepare(say).describe()}")
        finetuning.prepare(trial, seen, say)


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name}: expected a whole number of at least 1, got {value!r}")
    return value
