"""`--runner=ray` on two nodes of this machine, started like a cluster's: one is lost, one loses its storage."""

import csv
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from waiting import wait_for

from tests.tiers import slow_are

pytestmark = [
    pytest.mark.slow, pytest.mark.data,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]  # fmt: skip
HEAD, FIRST, SECOND = "127.0.0.2", "127.0.0.3", "127.0.0.4"  # 127.0.0.1 is rewritten by Ray
STORE = 80 * 2**20
SWEEP = [
    "--config=configs/translation/transformer.py:smoke", "--config.training.steps=80", "--config.training.log_every=5",
    "--config.training.checkpoint_every=5", "--config.training.batch_size=4", "--over=training.learning_rate=0.5,1",
    "--seeds=2", "--jobs=2",
]  # fmt: skip


class Cluster:
    """Nodes made by `ray start`, each in its own process group. The head node runs no trials."""

    def __init__(self):
        with socket.socket() as free:
            free.bind((HEAD, 0))
            self.address = f"{HEAD}:{free.getsockname()[1]}"
        self.nodes = []
        self.folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of its sockets must be short
        port = self.address.split(":")[1]
        self.add(HEAD, "--head", f"--port={port}", f"--temp-dir={self.folder}", "--include-dashboard=false", cores=0)

    def add(self, ip, *options, cores=1, before=()):
        options = [f"--node-ip-address={ip}", f"--num-cpus={cores}", f"--object-store-memory={STORE}", *options]
        if "--head" not in options:
            options.append(f"--address={self.address}")
        command = [*before, str(Path(sys.executable).parent / "ray"), "start", "--block", *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.nodes.append(subprocess.Popen(command, start_new_session=True, **quiet))
        wait_for(lambda: ip in self.alive(), 300)
        return self.nodes[-1]

    def alive(self):
        """The addresses of the nodes that Ray reports, read in a separate process."""
        ask = f"import ray; ray.init(address={self.address!r}, log_to_driver=False); "
        ask += "print(*(node['NodeManagerAddress'] for node in ray.nodes() if node['Alive']))"
        return subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout.split()

    def kill(self, node):
        """Simulates a power failure of a node."""
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def close(self):
        for node in reversed(self.nodes):
            if node.poll() is None:
                self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def cluster(monkeypatch):
    """A cluster with only a head node, closed to others."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # the default (15) lets a trial starve beside another test
    made = Cluster()
    yield made
    made.close()


def driver(root, *arguments):
    command = [sys.executable, "-m", "attention_research", *arguments]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def figures(workdir):
    """The table without the columns that depend on speed."""
    with open(workdir / "table.csv", newline="") as file:
        return [{k: v for k, v in row.items() if "/s" not in k and "MB" not in k} for row in csv.DictReader(file)]


def results(workdir):
    return {path.parent.name: json.loads(path.read_text()) for path in workdir.glob("trials/*/result.json")}


def begun_on(workdir):
    """trial -> how often it was started."""
    return {path.name: len(list(path.glob("attempts/*"))) for path in workdir.glob("trials/*")}


@pytest.mark.long
def test_a_node_is_lost_and_the_table_is_that_of_a_local_run(cluster, root, tmp_path):
    doomed, _ = cluster.add(FIRST), cluster.add(SECOND)
    there = tmp_path / "ray"
    process = driver(root, "sweep", *SWEEP, f"--workdir={there}", "--runner=ray", f"--address={cluster.address}")
    try:
        # Both nodes are working and have saved something.
        wait_for(lambda: len({path.parts[-3] for path in there.glob("trials/*/checkpoints/*")}) >= 2)
        cluster.kill(doomed)
        _, said = process.communicate(timeout=900)
    finally:
        process.kill()
    assert process.returncode == 0, said
    lost = [line for line in said.splitlines() if "retrying" in line]
    assert len(lost) == 1 and "lost with its worker or its node" in lost[0], said
    assert sorted(begun_on(there).values()) == [1, 1, 1, 2]  # every trial once, the lost one twice
    for path in there.glob("trials/*/metrics.jsonl"):
        steps = [line["step"] for line in map(json.loads, path.read_text().splitlines()) if line["split"] == "train"]
        assert steps == list(range(5, 81, 5))
    (again,) = (name for name, times in begun_on(there).items() if times == 2)
    assert "continuing from step" in (there / "trials" / again / "log.txt").read_text()

    here = tmp_path / "local"
    local = driver(root, "sweep", *SWEEP, f"--workdir={here}")
    assert local.communicate(timeout=900) and local.returncode == 0
    ours, theirs = results(there), results(here)
    assert ours.keys() == theirs.keys() and len(ours) == 4
    for name in ours:
        assert ours[name]["curves"] == theirs[name]["curves"]
    assert figures(there) == figures(here)


STUDY = '''"""Trials that take their time."""

import json
import os
import time
from pathlib import Path

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.training import environment

environment.describe = lambda: {"backend": "none"}


def slow(*, value, seed):
    time.sleep(4)
    return {"value": value}


STUDY = Study(
    rows=tuple(Row(f"row{i}", f"row {i}", settings={"value": float(i)}) for i in range(4)),
    scales={"quick": Scale(seeds=1)},
    stages=(measure(slow),),
    columns=(Column("measure.value", "value", fixed(1)),),
)
'''


@pytest.fixture
def blindable(cluster, tmp_path):
    """A node in its own mount namespace. Calling it removes the storage under `tmp_path` from the node."""
    if os.geteuid() or not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"]).returncode:
        pytest.skip("mount namespaces are not available here")
    started = cluster.add(SECOND, before=("unshare", "-m"))  # becomes `ray start`, whose children share it

    def blind():
        mount = ["mount", "-t", "tmpfs", "none", str(tmp_path / "runs")]
        subprocess.run(["nsenter", f"--target={started.pid}", "--mount", *mount], check=True)

    return blind


@pytest.fixture
def slow_study(tmp_path, monkeypatch):
    folder = tmp_path / "slow"
    folder.mkdir(parents=True)
    (folder / "table.py").write_text(STUDY)
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.mark.parametrize("when", slow_are(["before"], ["before", "during"]))
def test_a_node_without_the_shared_storage(cluster, blindable, slow_study, when):
    cluster.add(FIRST)
    if when == "before":
        blindable()
    arguments = ("reproduce", "slow/table.py", "--scale=quick", "--runner=ray", f"--address={cluster.address}")
    process = driver(slow_study, *arguments)
    runs = slow_study / "runs" / "slow-table-quick"
    if when == "during":
        wait_for(lambda: sum(begun_on(runs).values()) >= 2)
        blindable()
    out, said = process.communicate(timeout=300)
    if when == "before":
        assert process.returncode == 1 and said.splitlines()[-1].startswith("error: runs/slow-table-quick: ")
        assert f"({SECOND}) of the Ray cluster does not see this folder; give a --workdir on storage" in said
        assert not results(runs)
    else:
        assert process.returncode == 0, said
        assert len(results(runs)) == 4
        assert f"({SECOND}) does not see {runs}/trials/" in said
