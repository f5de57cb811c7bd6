"""A full disk under a study: each file that is written is named in one line, and what was there stays.

A limit on the size of files stands for the full disk. It fails every write, as a full disk does.
"""

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from results_of import results_of

from attention_research.cli import program
from attention_research.errors import RunError
from attention_research.studies import figures, report, table_record, tables, worker
from attention_research.studies.attempts import Attempt
from attention_research.studies.axes import read_axes
from attention_research.studies.draws import Draws
from attention_research.studies.figure_caption import Figure, save
from attention_research.studies.runners import supervision
from attention_research.studies.trial_folders import read_outcome
from attention_research.training.workdir import write_text

FULL = "File too large; fix this and rerun the same command"


@contextlib.contextmanager
def full_disk():
    """No file can grow in this block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def drawn(path):
    from matplotlib.figure import Figure as Canvas

    save(Canvas(), path)


def journal(path):
    Draws(path, "a", read_axes(["training.batch_size=1,2"], ()), None)


RESULTS = results_of({"a": {"train.loss": [1.0, 2.0]}})
#: The file that is named -> a function of the folder that writes it.
WRITERS = {
    "results.parquet": lambda folder: tables.write(RESULTS, folder),
    "report.html": lambda folder: report.write(folder / "report.html", "page"),
    "loss.png": lambda folder: drawn(folder / "loss.png"),
    "attempts/1.json": lambda folder: Attempt.begin(folder),
    "log.txt": lambda folder: supervision.start(folder),
    "search.journal": lambda folder: journal(folder / "search.journal"),
    "summary.json": lambda folder: write_text(folder / "summary.json", "{}"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_file_of_a_study_is_named(name, tmp_path):
    with full_disk(), pytest.raises(RunError, match=f"^cannot write {tmp_path}/{name}: {FULL}$"):
        WRITERS[name](tmp_path)


def test_files_that_cannot_be_written_stay_as_they_were(tmp_path):
    tables.write(RESULTS, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with full_disk(), pytest.raises(RunError):
        tables.write(results_of({"a": {"train.loss": [3.0]}}), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert before.keys() == {"results.parquet", "table.csv", "table.md"}


def test_recorded_figures_stay_if_new_ones_cannot_be_written(tmp_path, monkeypatch):
    old, new = tmp_path / "record" / "figures", tmp_path / "new.png"
    old.mkdir(parents=True)
    for name in ("new.png", "gone.png"):
        (old / name).write_bytes(b"before")
    new.write_bytes(b"after")
    monkeypatch.setattr(figures, "draw", lambda found, folder: [Figure(new, "", "")])
    with full_disk(), pytest.raises(RunError, match=f"^cannot write {old}/new.png: {FULL}$"):
        table_record.draw(RESULTS, tmp_path / "record")
    assert {path.name: path.read_bytes() for path in old.iterdir()} == {"new.png": b"before", "gone.png": b"before"}
    assert table_record.draw(RESULTS, tmp_path / "record")
    assert {path.name: path.read_bytes() for path in old.iterdir()} == {"new.png": b"after"}


def test_a_trial_on_a_full_disk_ends_with_one_line(tmp_path, capsys):
    with full_disk():
        assert worker.work(tmp_path) == 1
        ended = supervision.ending(tmp_path, 1)
    assert capsys.readouterr().err == f"error: cannot write {tmp_path}/attempts/1.json: {FULL}\n"
    assert ended == ("failed", f"cannot write {tmp_path}: {FULL}")


def test_a_trial_without_an_error_line_refers_to_its_log(tmp_path):
    assert supervision.ending(tmp_path, 1) == ("failed", f"ended with status 1; see {tmp_path}/log.txt")
    assert not list(tmp_path.iterdir())


def test_a_trial_that_was_killed_too_often_on_a_full_disk_is_reported(tmp_path):
    with full_disk():
        assert supervision.given_up(tmp_path, "killed") == f"killed; see {tmp_path}/log.txt"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_unnamed_file_is_not_said_to_be_standard_output(number, monkeypatch, capsys):
    def refused(argv):
        raise OSError(number, "Detail: [errno 28]")

    monkeypatch.setattr(program, "dispatch", refused)
    assert program.main(["list"]) == 1
    assert capsys.readouterr().err == f"error: a file cannot be written: {os.strerror(number)}\n"


def test_a_killed_search_leaves_no_lock_to_wait_for(tmp_path, monkeypatch):
    """Optuna's own lock is a link to the journal. A killed process leaves it, and a relative path makes it dangle."""
    monkeypatch.chdir(tmp_path)
    place = Path("runs/search")
    place.mkdir(parents=True)
    (place / "search.journal.lock").symlink_to(place / "search.journal")
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waits for the lock of a killed process"))
    signal.alarm(20)
    try:
        journal(place / "search.journal")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert (place / "search.journal").stat().st_size


def test_a_damaged_outcome_of_a_stage_counts_as_none(tmp_path):
    for text in ("", '{"loss": 1', "[1]"):
        (tmp_path / "train.json").write_text(text)
        assert read_outcome(tmp_path / "train.json") is None
    (tmp_path / "train.json").write_text('{"loss": 1.0}')
    assert read_outcome(tmp_path / "train.json") == {"loss": 1.0}
    assert read_outcome(tmp_path / "evaluate.json") is None


_CACHE = """
import sys, warnings
from pathlib import Path
from attention_research.training.environment import keep_compiled_programs
keep_compiled_programs()
warnings.warn("Error writing persistent compilation cache entry for 'jit_step': OSError: [Errno 28] No space left")
warnings.warn("Error reading persistent compilation cache entry for 'jit_start': OSError: [Errno 30] Read-only")
"""


def test_warnings_of_the_compile_cache_are_one_line(tmp_path):
    """A full disk leaves the first part of the newest entry."""
    for time, name in enumerate(("jit_step-a", "jit_step-b", "jit_steps-c")):
        (tmp_path / f"{name}-cache").write_bytes(b"part")
        os.utime(tmp_path / f"{name}-cache", (time, time))
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _CACHE], env=environment, capture_output=True, text=True, check=True)
    line = f"compiled programs cannot be kept in {tmp_path} (OSError: [Errno 28] No space left)"
    assert done.stderr.splitlines() == [f"{line}: programs are compiled again"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jit_step-a-cache", "jit_steps-c-cache"]
    assert json.dumps(done.stdout) == '""'
