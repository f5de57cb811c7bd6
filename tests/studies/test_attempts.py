"""Attempts at one trial are numbered. Only the newest one works, and a resumed old one changes nothing."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import wait_for

from attention_research.studies import attempts
from attention_research.studies.attempts import SUPERSEDED, Attempt
from attention_research.studies.runners.supervision import ending

SLEEPER = """
import sys, time
from pathlib import Path
from attention_research.studies.attempts import Attempt
folder = Path(sys.argv[1])
attempt = Attempt.begin(folder)
(folder / f"began-{attempt.number}").touch()
time.sleep(60)
"""
TRAINING = {"steps": 60, "log_every": 1, "checkpoint_every": 5, "eval_every": 30, "batch_size": 4}


def contents(folder):
    """Every file under a folder, except the attempts' own files and the log, with the digest of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "attempts" and path.name != "log.txt"
    }


def test_every_attempt_gets_its_own_number(tmp_path, monkeypatch):
    monkeypatch.setattr(Attempt, "_watch", lambda self: None)  # the watch would end this process
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: Attempt.begin(tmp_path).number, range(8)))
    assert sorted(found) == list(range(1, 9)) and attempts.attempts(tmp_path) == 8


def test_only_the_newest_attempt_continues(tmp_path):
    first = subprocess.Popen([sys.executable, "-c", SLEEPER, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    wait_for((tmp_path / "began-1").exists)
    Attempt.begin(tmp_path)
    assert first.wait(30) == SUPERSEDED
    assert first.stderr.read() == "attempt 1: a later one has this trial; leaving\n"


def test_an_attempt_that_does_not_end_is_named(tmp_path, monkeypatch):
    import fcntl

    monkeypatch.setattr(Attempt, "_watch", lambda self: None)  # the watch would end this process
    monkeypatch.setattr(attempts, "PATIENCE_SECONDS", 0.1)
    Attempt.begin(tmp_path)
    with (tmp_path / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(attempts.RunError, match=rf"attempt 1 \(process {os.getpid()} on \S+\) still holds it"):
            Attempt.begin(tmp_path)


@pytest.mark.parametrize("torn", ["", '{"host": "a", "pro'])
def test_an_attempt_file_that_was_not_written_to_the_end_does_not_count(tmp_path, monkeypatch, torn):
    monkeypatch.setattr(Attempt, "_watch", lambda self: None)  # the watch would end this process
    (tmp_path / "attempts").mkdir()
    (tmp_path / "attempts" / "1.json").write_text(torn)
    attempt = Attempt.begin(tmp_path)
    attempt.ends(2.5)
    assert attempt.number == 2 and attempts.spent(tmp_path) == 2.5


@pytest.mark.parametrize(
    ("status", "state"),
    [(0, "done"), (1, "failed"), (SUPERSEDED, "failed"), (-9, "killed"), (137, "killed"), (143, "killed")],
)
def test_what_an_exit_status_means(tmp_path, status, state):
    """A shell in between reports a signal as 128 + its number."""
    assert ending(tmp_path, status).state == state


@pytest.mark.slow
@pytest.mark.data
def test_a_resumed_superseded_attempt_changes_nothing(tmp_path, root):
    """Frozen in the middle of training, on storage without shared locks, and resumed after another attempt is done."""
    from attention_research.studies.study import Row, Scale, Study
    from attention_research.studies.trial_folders import Folder
    from attention_research.studies.trials import plan

    overrides = {f"training.{name}": value for name, value in TRAINING.items()}
    study = Study((Row("only", "only"),), {"x": Scale("configs/translation/transformer.py:smoke", overrides, seeds=1)})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        (trial,) = plan(study, "x", list(study.rows), 1, "0" * 12)
    folder = Folder(tmp_path).prepare(trial, rerun_stale=False)
    command = [sys.executable, "-m", "attention_research", "attempt", str(folder)]
    dead = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for((folder / "checkpoints" / "5").exists, 400)
        dead.send_signal(signal.SIGSTOP)
        assert not (folder / "result.json").exists()
        (folder / ".lock").unlink()
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        result = json.loads((folder / "result.json").read_text())
        assert result["stages"]["train"]["steps"] == TRAINING["steps"] and attempts.attempts(folder) == 2
        before = contents(folder)
        dead.send_signal(signal.SIGCONT)
        assert dead.wait(60) == SUPERSEDED
        after = contents(folder)
        assert {name: after.get(name) for name in before} == before
        # Writes that had been started may still reach the disk: an unfinished checkpoint without its marker and name,
        # which does not count as a checkpoint.
        assert all(
            name.startswith("checkpoints/") and ".orbax-checkpoint-tmp/" in name for name in after.keys() - before
        )
    finally:
        dead.kill()
        dead.communicate()
