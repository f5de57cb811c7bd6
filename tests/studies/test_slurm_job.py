"""What runs inside a Slurm job, without Slurm."""

import os
import signal
import subprocess
import threading
import time

import pytest

from attention_research.studies.runners import slurm


def test_a_job_that_is_taken_away_ends_as_soon_as_its_trial_has_saved(tmp_path, monkeypatch):
    """The signal interrupts the job's wait for the trial's end."""

    def start(folder, **_):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return subprocess.Popen(["sleep", "60"])

    monkeypatch.setattr(slurm, "start", start)
    monkeypatch.setattr(slurm, "_SAVING_SECONDS", 20.0)
    job, before, began = slurm.Supervised(str(tmp_path), str(tmp_path)), signal.getsignal(signal.SIGTERM), time.time()
    try:
        with pytest.raises(SystemExit):
            job()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert job.process.wait() == -signal.SIGTERM and time.time() - began < 10
