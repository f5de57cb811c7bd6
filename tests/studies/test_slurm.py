"""`--runner=slurm` on a real Slurm with two nodes on this machine: killed trials, requeued jobs; also without Slurm."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from waiting import wait_for

from attention_research.cli import main
from attention_research.studies.runners import slurm as runner

TOOLS = ("slurmctld", "slurmd", "munged", "scontrol", "srun")
IS_HERE = all(map(shutil.which, TOOLS)) and os.geteuid() == 0
CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MinJobAge=5
KillWait=5
NodeName=n1 NodeHostname={host} Port={first} CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname={host} Port={second} CPUs=1 RealMemory=1000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
SWEEP = [
    "--config=configs/translation/transformer.py:smoke", "--config.training.steps=60", "--config.training.log_every=5",
    "--config.training.checkpoint_every=5", "--config.training.eval_every=15", "--config.training.batch_size=4",
    "--over=training.learning_rate=0.5,1", "--seeds=1",
]  # fmt: skip


def on_slurm(test):
    """Marks a test that runs whole sweeps on a real Slurm."""
    absent = pytest.mark.skipif(not IS_HERE, reason="Slurm is not installed, or the tests do not run as root")
    return pytest.mark.slow(pytest.mark.data(absent(test)))


def ports(count):
    held = [socket.create_server(("", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


@pytest.fixture(scope="module")
def slurm():
    """A controller, two nodes and the authentication daemon. Returns the environment that finds them."""
    folder = Path(tempfile.mkdtemp(prefix="slurm", dir="/tmp"))
    folder.chmod(0o755)
    controller, first, second = ports(3)
    named = {"host": socket.gethostname(), "controller": controller, "first": first, "second": second}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, **named))
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    munge = ["munged", "--force", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
    munge += [f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    commands = [munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"]]
    started = []
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    try:
        for command in commands:
            started.append(subprocess.Popen(command, **quiet))
            if command is munge:
                wait_for((folder / "munge.socket").exists, 120)
        idle = ["sinfo", "--noheader", "--format=%T %D"]
        wait_for(lambda: subprocess.run(idle, capture_output=True, text=True).stdout.strip() == "idle 2", 300)
        yield folder
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)
        del os.environ["SLURM_CONF"]
        shutil.rmtree(folder, ignore_errors=True)


def sweep(root, *options):
    command = [sys.executable, "-m", "attention_research", "sweep", *SWEEP, *options]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(workdir):
    return {path.parent.name: json.loads(path.read_text()) for path in workdir.glob("trials/*/result.json")}


def trial_processes(workdir):
    """folder -> process of the running trials."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if "attempt" in words and str(workdir) in words[words.index("attempt") + 1]:
            found[Path(words[words.index("attempt") + 1])] = int(place.name)
    return found


@pytest.mark.long
@on_slurm
def test_a_killed_trial_and_a_requeued_job_end_as_a_local_run(slurm, root, tmp_path, in_process):
    there, here = tmp_path / "slurm", tmp_path / "local"
    process = sweep(root, f"--workdir={there}", "--runner=slurm", "--cores=1", "--slurm=partition=all,time=30")
    try:
        saved = lambda: [path.parent.parent for path in there.glob("trials/*/checkpoints/*") if path.name.isdecimal()]
        wait_for(lambda: len(set(saved())) == 2)
        killed, requeued = sorted(trial_processes(there))
        os.kill(trial_processes(there)[killed], signal.SIGKILL)
        jobs = {}
        for path in there.glob("slurm/*_submitted.pkl"):
            jobs[requeued.name in path.read_bytes().decode(errors="replace")] = path.name.split("_")[0]
        subprocess.run(["scontrol", "requeue", jobs[True]], check=True)
        pending = ["squeue", "--noheader", f"--jobs={jobs[True]}", "--format=%T"]
        wait_for(lambda: subprocess.run(pending, capture_output=True, text=True).stdout.strip() == "PENDING")
        # Otherwise the job would start after two minutes.
        subprocess.run(["scontrol", "update", f"JobId={jobs[True]}", "StartTime=now"], check=True)
        _, said = process.communicate(timeout=900)
    finally:
        process.kill()
    assert process.returncode == 0, said
    for trial in (killed, requeued):
        log = (trial / "log.txt").read_text()
        assert len(list((trial / "attempts").iterdir())) == 2 and "continuing from step" in log, log
    assert "SIGTERM: saved step" in (requeued / "log.txt").read_text()

    # This Slurm does not bind tasks to cores: each trial could use both, and products are split among all threads.
    assert main(["sweep", *SWEEP, f"--workdir={here}", "--jobs=1"]) == 0
    ours, theirs = results(there), results(here)
    assert ours.keys() == theirs.keys() and len(ours) == 2
    assert {name: one["curves"] for name, one in ours.items()} == {name: one["curves"] for name, one in theirs.items()}


@on_slurm
def test_a_job_refused_by_sbatch_is_one_line(slurm, root, tmp_path):
    process = sweep(root, f"--workdir={tmp_path}/x", "--runner=slurm", "--slurm=partition=moon")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "partition" in said.splitlines()[-1] and said.splitlines()[-1].startswith("error: sbatch refused the trial")


@on_slurm
def test_a_preempted_job_saves_and_continues(slurm, root, tmp_path):
    """The signal that Slurm sends 90 seconds before a job's time limit, or when it preempts the job."""
    there = tmp_path / "slurm"
    only = f"--workdir={there}", "--runner=slurm", "--slurm=partition=all,time=30", "--config.training.seed=3"
    process = sweep(root, *only, "--over=model.dropout_rate=0.1", "--jobs=1")
    try:
        wait_for(lambda: any(path.name.isdecimal() for path in there.glob("trials/*/checkpoints/*")))
        (running,) = trial_processes(there)
        number = next(there.glob("slurm/*_submitted.pkl")).name.split("_")[0]
        subprocess.run(["scancel", "--signal=USR2", number], check=True)
        queued = ["squeue", "--noheader", f"--jobs={number}", "--format=%T"]
        wait_for(lambda: subprocess.run(queued, capture_output=True, text=True).stdout.strip() == "PENDING")
        assert "SIGTERM: saved step" in (running / "log.txt").read_text()
        subprocess.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], check=True)
        wait_for((running / "result.json").exists)
        assert "continuing from step" in (running / "log.txt").read_text()
    finally:
        process.terminate()
        process.communicate(timeout=300)


def test_a_preempted_job_ends_as_soon_as_its_trial_has_saved(tmp_path, monkeypatch):
    """The signal interrupts the job while it waits for the trial's end."""

    def start(folder, **_):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return subprocess.Popen(["sleep", "60"])

    monkeypatch.setattr(runner, "start", start)
    monkeypatch.setattr(runner, "_SAVING_SECONDS", 20.0)
    job, before, began = runner.Supervised(str(tmp_path), str(tmp_path)), signal.getsignal(signal.SIGTERM), time.time()
    try:
        with pytest.raises(SystemExit):
            job()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert job.process.wait() == -signal.SIGTERM and time.time() - began < 10
