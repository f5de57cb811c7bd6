"""Runs `attention-research train` as a process that is killed, signalled, or given a full disk."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from waiting import wait_for

from tests.tiers import slow_are

pytestmark = [pytest.mark.slow, pytest.mark.data]
STEPS = 100
SETTINGS = {
    "steps": STEPS, "log_every": 1, "checkpoint_every": 3, "eval_every": 10, "batch_size": 4, "keep": 2, "keep_best": 1,
}  # fmt: skip
SAID = re.compile(r"^SIGTERM: saved step (\d+) of 100 in \S+; the same command continues from there$")


def command(workdir):
    given = [f"--config.training.{name}={value}" for name, value in SETTINGS.items()]
    config = "--config=configs/translation/transformer.py:smoke"
    return [sys.executable, "-m", "attention_research", "train", config, f"--workdir={workdir}", *given]


def start(workdir, root):
    return subprocess.Popen(
        command(workdir), cwd=root, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ}
    )


def finish(workdir, root):
    done = subprocess.run(command(workdir), cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def log(workdir):
    """The lines of metrics.jsonl on disk, without machine-dependent speeds. Every line is complete."""
    path = workdir / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    assert not text or text.endswith("\n")
    lines = [json.loads(line) for line in text.splitlines()]
    return [{k: v for k, v in line.items() if k not in ("tokens_per_second", "data_wait")} for line in lines]


def train_steps(workdir):
    return [line["step"] for line in log(workdir) if line["split"] == "train"]


def state(workdir):
    """Every array of the last checkpoint: parameters, the optimizer's moments, the step."""
    restored = ocp.PyTreeCheckpointer().restore((workdir / "checkpoints" / str(STEPS)).absolute())
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in jax.tree_util.tree_leaves_with_path(restored)}


def assert_same(workdir, whole):
    assert log(workdir) == log(whole)
    ours, theirs = state(workdir), state(whole)
    assert ours.keys() == theirs.keys() and len(ours) > 30
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
    kept = lambda folder: sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept(workdir) == kept(whole)  # no partly written file is left


@pytest.fixture(scope="module")
def whole(tmp_path_factory, root):
    """An uninterrupted run."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    finish(workdir, root)
    assert train_steps(workdir) == list(range(1, STEPS + 1))
    return workdir


def logged(path):
    return path.read_bytes().count(b'"train"') if path.exists() else 0


def wait(process, condition):
    """Waits until the condition holds or the process has ended."""
    wait_for(lambda: process.poll() is not None or condition(), seconds=600, every=0.001)


#: When each process is killed: after it has started (imports, data, compilation), while a checkpoint is being written
#: to disk, or some time after a step. Kills after a step leave the progress of at least one step, so that the run ends.
KILLS = ("writing", "starting", "stepping", "writing", "stepping")


@pytest.mark.parametrize("seed", slow_are(["0"], [0, 1]))
def test_a_repeatedly_killed_run_equals_the_uninterrupted_one_bitwise(whole, tmp_path, root, seed):
    """SIGKILL at five moments.

    The run's log, parameters and optimizer state then equal those of an uninterrupted run.
    """
    workdir, chance, killed = tmp_path / "run", random.Random(seed), []
    path = workdir / "metrics.jsonl"
    for kind in KILLS:
        before, process = train_steps(workdir)[-1:] or [0], start(workdir, root)
        if kind == "starting":
            wait(process, lambda end=time.monotonic() + chance.uniform(0.0, 6.0): time.monotonic() > end)
        else:
            goal = before[0] + chance.randrange(3, 7)
            wait(process, lambda goal=goal: logged(path) >= goal)
            if kind == "writing":
                wait(process, lambda: next((workdir / "checkpoints").glob("*tmp*"), None) is not None)
            time.sleep(chance.uniform(0.0, 0.02 if kind == "writing" else 0.1))
        process.kill()
        process.communicate()
        steps = train_steps(workdir)
        assert steps == list(range(1, len(steps) + 1))  # contiguous even before the next process repairs the log
        killed.append((kind, process.returncode, steps[-1:]))
    assert [code for _, code, _ in killed].count(-signal.SIGKILL) >= 4, killed
    finish(workdir, root)
    assert_same(workdir, whole)


@pytest.mark.long
def test_a_terminated_run_saves_and_can_be_continued(whole, tmp_path, root):
    """SIGTERM after the fifth step saves a checkpoint within the usual grace period of 10 seconds.

    Then the run goes on.
    """
    workdir = tmp_path / "run"
    process = start(workdir, root)
    path = workdir / "metrics.jsonl"
    wait(process, lambda: logged(path) >= 5)
    process.terminate()
    sent = time.monotonic()
    _, said = process.communicate()
    assert time.monotonic() - sent < 10
    assert process.returncode == 128 + signal.SIGTERM and "Traceback" not in said
    saved = int(SAID.match(said.splitlines()[-1])[1])
    assert train_steps(workdir) == list(range(1, saved + 1)) and (workdir / "checkpoints" / str(saved)).is_dir()
    assert f"continuing from step {saved} in {workdir}" in finish(workdir, root)
    assert_same(workdir, whole)


def test_a_full_disk_is_one_line_and_the_run_continues_elsewhere(whole, tmp_path, root):
    """A file system with room for two and a half checkpoints, mounted in a private namespace."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("mounting a private file system is not permitted here")
    files = [path for path in (whole / "checkpoints" / str(STEPS)).rglob("*") if path.is_file()]
    size = int(2.5 * sum((path.stat().st_size + 4095) // 4096 * 4096 for path in files))
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    script = f'mount -t tmpfs -o size={size} tmpfs {disk} || exit 77; "$@"; end=$?; cp -a {disk}/run {copy}; exit $end'
    alone = ["unshare", "-rm", "sh", "-c", script, "sh", *command(disk / "run")]
    done = subprocess.run(alone, cwd=root, capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("mounting a private file system is not permitted here")
    assert done.returncode == 1, done.stderr[-3000:]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "No space left on device" in last and "Traceback" not in done.stderr
    assert f"continues from step {max(int(p.name) for p in (copy / 'checkpoints').glob('[0-9]*'))}" in last
    assert train_steps(copy)
    finish(copy, root)
    assert_same(copy, whole)
