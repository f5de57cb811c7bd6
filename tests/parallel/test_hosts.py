"""`attention-research train` on two hosts, simulated by two processes of four devices each on loopback."""

import json
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from waiting import wait_for

from tests.parallel.programs import ROOT, environment
from tests.tiers import slow_are

STEPS, EVERY = 24, 4
SETTINGS = {
    "steps": STEPS, "log_every": 1, "checkpoint_every": EVERY, "eval_every": 12, "batch_size": 16, "keep": 9,
}  # fmt: skip
#: Further evaluations, which every validation computes. One decodes, one reads the model's outputs.
EVALUATIONS = {"written.kind": "bleu", "written.split": "validation", "written.examples": 5,
               "tokens.kind": "perplexity", "tokens.split": "validation"}  # fmt: skip
#: After one host dies, the other reports it and ends within this many seconds.
SOON = 10


def command(workdir, *more, evaluations=EVALUATIONS):
    given = [f"--config.training.{name}={value}" for name, value in SETTINGS.items()]
    given += [f"--config.evaluations.{name}={value}" for name, value in evaluations.items()]
    config = "--config=configs/translation/transformer.py:smoke"
    return [sys.executable, "-m", "attention_research", "train", config, f"--workdir={workdir}", *given, *more]


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def start_hosts(workdir, *more, **settings):
    """Two processes and the files with their output."""
    meet = [f"--coordinator_address={free_address()}", "--num_processes=2"]
    return [
        subprocess.Popen(
            command(workdir, *meet, f"--process_id={host}", *more, **settings), cwd=ROOT, env=environment(4),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for host in range(2)
    ]  # fmt: skip


def two_hosts(workdir, *more, **settings):
    hosts = start_hosts(workdir, *more, **settings)
    said = [host.communicate(timeout=900)[1] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], said
    return workdir


def one_host(workdir, devices, *more):
    done = subprocess.run(command(workdir, *more), cwd=ROOT, env=environment(devices), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return workdir


def losses(workdir, split="train"):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["split"] == split}


def scores(workdir):
    """The scores of the further evaluations at every validation."""
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [[line["written.bleu"], line["tokens.perplexity"]] for line in lines if line["split"] == "validation"]


def state(workdir, step=STEPS):
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    folder = (workdir / "checkpoints" / str(step)).absolute()
    with ocp.PyTreeCheckpointer() as reader:
        wanted = jax.tree.map(lambda _: ocp.ArrayRestoreArgs(sharding=one), reader.metadata(folder).item_metadata.tree)
        restored = reader.restore(folder, ocp.args.PyTreeRestore(restore_args=wanted))
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in jax.tree_util.tree_leaves_with_path(restored)}


pytestmark = [pytest.mark.slow, pytest.mark.data]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """An uninterrupted run of two hosts."""
    return two_hosts(tmp_path_factory.mktemp("hosts") / "run")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same run on one host with eight devices."""
    return one_host(tmp_path_factory.mktemp("alone") / "run", 8)


def test_two_hosts_train_as_one(together, alone):
    """Losses agree to float tolerance, also on the validation split and in further evaluations.

    Checkpoints are complete and written once, every step is logged once, and environment.json lists the devices and the
    number of hosts.
    """
    for split in ("train", "validation"):
        ours, theirs = losses(together, split), losses(alone, split)
        assert ours.keys() == theirs.keys()
        np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5)
    assert len(scores(together)) == STEPS // 12
    np.testing.assert_allclose(scores(together), scores(alone), rtol=1e-5)
    assert list(losses(together)) == list(range(1, STEPS + 1))
    steps = [str(step) for step in range(EVERY, STEPS + 1, EVERY)]
    for workdir in (together, alone):
        assert sorted(path.name for path in (workdir / "checkpoints").iterdir()) == sorted(steps)
    said = json.loads((together / "environment.json").read_text())
    assert said["hosts"] == 2 and said["mesh"]["data"] == 8 and len(said["devices"]) == 8


@pytest.mark.long
def test_pmap_and_sharded_parameters_on_two_hosts(tmp_path):
    """Without dropout, since pmap draws its own masks."""
    bare = "--config.model.dropout_rate=0.0"
    wanted = list(losses(one_host(tmp_path / "alone", 8, bare)).values())
    for name, settings in {"pmap": ["strategy=pmap"], "pieces": ["mesh.fsdp=4", "mesh.tensor=2"]}.items():
        found = losses(two_hosts(tmp_path / name, bare, *(f"--config.parallel.{setting}" for setting in settings)))
        np.testing.assert_allclose(list(found.values()), wanted, rtol=1e-5, err_msg=name)
        assert len(scores(tmp_path / name)) == STEPS // 12


def test_a_checkpoint_of_two_hosts_goes_on_on_one_with_another_mesh(together, alone, tmp_path):
    """From step 12 on, with sharded parameters, the losses are those of the uninterrupted run."""
    workdir = tmp_path / "run"
    shutil.copytree(together, workdir)
    for step in range(16, STEPS + 1, EVERY):
        shutil.rmtree(workdir / "checkpoints" / str(step))
    one_host(workdir, 4, "--config.parallel.mesh.fsdp=2", "--config.parallel.mesh.tensor=2")
    ours, theirs = losses(workdir), losses(alone)
    np.testing.assert_allclose([ours[step] for step in ours], [theirs[step] for step in ours], rtol=1e-5)
    assert len(ours) == STEPS


@pytest.mark.parametrize("dead", slow_are(["0"], [0, 1]))
def test_after_a_host_dies_both_continue_bitwise_equal(together, tmp_path, dead):
    """SIGKILL for one host: the other ends within seconds with one line.

    After a restart both end like an undisturbed run. They compile no further evaluations, which change no training.
    """
    workdir = tmp_path / "run"
    hosts = start_hosts(workdir, evaluations={})
    wait_for((workdir / "checkpoints" / str(2 * EVERY)).exists, 600)
    hosts[dead].send_signal(signal.SIGKILL)
    began, other = time.monotonic(), hosts[1 - dead]
    said = other.communicate(timeout=300)[1]
    assert time.monotonic() - began < SOON and other.returncode == 1, said[-2000:]
    hosts[dead].communicate()
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    gone = f"error: (host {dead} of 2|a host) is gone; start all of them again: the same command continues"
    assert re.fullmatch(gone, lines[0]), lines
    assert max(losses(workdir)) < STEPS
    two_hosts(workdir, evaluations={})
    assert losses(workdir) == losses(together)
    ours, theirs = state(workdir), state(together)
    assert ours.keys() == theirs.keys() and len(ours) > 30
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


@pytest.mark.long
def test_a_host_that_compiles_long_is_waited_for():
    """Compilation takes longer than the 30 s for which Gloo waits at the first communication."""
    address = free_address()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.parallel.meeting", json.dumps(address), str(host), "40"], cwd=ROOT,
            env=environment(2), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for host in range(2)
    ]  # fmt: skip
    for host in started:
        printed, said = host.communicate(timeout=300)
        assert host.returncode == 0, said[-2000:]
        assert json.loads(printed.splitlines()[-1]) == [6.0, 6.0]


def test_a_host_that_fails_ends_the_other_at_once(tmp_path):
    """Its disk refuses a write. Each host prints one line and ends with status 1, and none waits in a collective."""
    workdir = tmp_path / "run"
    hosts = start_hosts(workdir, evaluations={})
    wait_for((workdir / "checkpoints" / str(EVERY)).exists, 600)
    full = (workdir / "metrics.jsonl").stat().st_size
    resource.prlimit(hosts[0].pid, resource.RLIMIT_FSIZE, (full, full))
    wait_for((workdir / "error.txt").exists, 600)
    began = time.monotonic()
    other = hosts[1].communicate(timeout=300)[1]
    assert time.monotonic() - began < SOON and hosts[1].returncode == 1, other[-2000:]
    first = hosts[0].communicate(timeout=300)[1]
    assert hosts[0].returncode == 1, first[-2000:]
    ours, theirs = ([line for line in said.splitlines() if line.startswith("error: ")] for said in (first, other))
    assert len(ours) == len(theirs) == 1 and "File too large" in ours[0] and "is gone" in theirs[0], (ours, theirs)


def test_a_signal_to_one_host_saves_on_both(tmp_path):
    """Both end with the signal's status, and nothing is lost."""
    workdir = tmp_path / "run"
    hosts = start_hosts(workdir, evaluations={})
    wait_for((workdir / "checkpoints" / str(EVERY)).exists, 600)
    hosts[1].send_signal(signal.SIGTERM)
    said = [host.communicate(timeout=300)[1] for host in hosts]
    assert [host.returncode for host in hosts] == [128 + signal.SIGTERM] * 2, said
    last = max(losses(workdir))
    assert last < STEPS and (workdir / "checkpoints" / str(last)).exists()
    assert f"SIGTERM: saved step {last} of {STEPS}" in said[0]
