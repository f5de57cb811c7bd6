"""Trials as jobs of a Slurm cluster, by submitit.

A job does nothing but start the trial's command and wait. What is killed on its node is started again in the same job;
a job that Slurm ends (its time is up, it is preempted, its node dies) has its trial saved and is handed in again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError, RunError
from attention_research.studies.attempts import attempts
from attention_research.studies.runners.supervision import Ending, ending, start

_LOOK_SECONDS = 5.0
_SAVING_SECONDS = 60.0
_TRIES = 3
#: What Slurm sends to all processes of a job, at submitit's asking, before its time is up.
_PREEMPTION = (signal.SIGUSR1, signal.SIGUSR2)


class SlurmCrew:
    """``jobs`` trials at a time, by default all at once: the queue has the say.

    A job takes ``cores`` cores (one) and ``devices`` GPUs (none); ``slurm`` are settings of sbatch, such as
    ``{"partition": "gpu", "time": 240}``, by their long names. Logs and submitit's files lie in the study's folder
    under ``slurm/``.
    """

    def __init__(
        self,
        jobs: int | None = None,
        *,
        cores: int | None = None,
        devices: int | None = None,
        slurm: dict[str, Any] | None = None,
    ):
        self.jobs, self.cores, self.devices, self.settings = jobs, cores or 1, devices or 0, slurm or {}
        self.running: list[_Trial] = []
        self.looked, self.queued = 0.0, set[str]()

    def open(self, workdir: Path) -> None:
        """Finds sbatch. Raises RunError where there is none."""
        try:
            import submitit
        except ImportError:
            raise ConfigError("--runner=slurm: submitit is missing; pip install 'attention_research[sweep]'") from None
        if submitit.SlurmExecutor.affinity() < 0:
            raise RunError("--runner=slurm: no srun here; start the command on a machine that submits to Slurm")
        self.executor = submitit.AutoExecutor(folder=workdir.absolute() / "slurm", cluster="slurm")
        takes = {"cpus_per_task": self.cores, **({"gpus_per_node": self.devices} if self.devices else {})}
        wanted = {"time": 60 * 24, "job_name": workdir.name, **takes, **self.settings}
        shared = {"time": "timeout_min", "job_name": "name"}
        try:
            self.executor.update_parameters(
                **{shared.get(key, key if key in takes else f"slurm_{key}"): value for key, value in wanted.items()}
            )
        except NameError as error:  # submitit names all that there are
            raise ConfigError(f"--slurm: {str(error).splitlines()[0]}") from None

    def start(self, folder: Path) -> _Trial:
        """Hands it in. Raises RunError where sbatch refuses it."""
        import submitit

        folder = folder.absolute()
        try:
            job = self.executor.submit(Supervised(str(folder), str(Path.cwd())))
        except submitit.core.utils.FailedJobError as error:
            raise RunError(f"sbatch refused the trial: {' '.join(str(error).split())}") from None
        trial = _Trial(self, folder, job)
        self.running.append(trial)
        self.queued.add(job.job_id)
        return trial

    def close(self) -> None:
        """Cancels the jobs that are left."""
        for trial in self.running:
            trial.job.cancel()

    def in_queue(self, number: str) -> bool:
        """Whether Slurm still has the job; asked for all jobs at once, every five seconds."""
        if time.monotonic() - self.looked > _LOOK_SECONDS:
            found = subprocess.run(["squeue", "--me", "--noheader", "--format=%i"], capture_output=True, text=True)
            if found.returncode == 0:  # a controller that does not answer has not lost the jobs
                self.looked, self.queued = time.monotonic(), set(found.stdout.split())
        return number in self.queued


class _Trial:
    def __init__(self, crew: SlurmCrew, folder: Path, job: Any):
        self.crew, self.folder, self.job = crew, folder, job
        self.before = attempts(folder)

    def begun(self) -> bool:
        """Whether its process has taken its number."""
        return attempts(self.folder) > self.before

    def ending(self) -> Ending | None:
        """What the job has written; killed, if it is gone and has written nothing."""
        told = self.job.paths.result_pickle.exists()
        if not told and self.crew.in_queue(self.job.job_id):
            return None
        if not told and not self.job.paths.result_pickle.exists():
            self.crew.running.remove(self)
            return Ending("killed", f"Slurm's job {self.job.job_id} is gone")
        self.crew.running.remove(self)
        error = self.job.exception()
        if error is not None:
            return Ending("failed", f"Slurm's job {self.job.job_id}: {str(error).strip().splitlines()[-1]}")
        return Ending(*self.job.result())


class Supervised:
    """In a job: run one trial to its end. submitit calls `checkpoint` when Slurm is about to end the job."""

    def __init__(self, folder: str, directory: str):
        self.folder, self.directory = folder, directory
        self.process: subprocess.Popen | None = None

    def __call__(self) -> tuple[str, str]:
        """(state, line) of the trial. Where Slurm takes the job away, nothing: the job may come back elsewhere."""
        signal.signal(signal.SIGTERM, self._taken_away)
        for _ in range(_TRIES):
            self.process = start(Path(self.folder), directory=Path(self.directory), deaf_to=_PREEMPTION)
            ended = ending(Path(self.folder), self.process.wait())
            if ended.state != "killed":
                break
        return ended.state, ended.line

    def _taken_away(self, number: int, frame: Any) -> None:
        self._save()
        raise SystemExit(128 + number)

    def checkpoint(self) -> Any:
        """Has the trial save, and hands in the same again."""
        import submitit

        self._save()
        return submitit.helpers.DelayedSubmission(Supervised(self.folder, self.directory))

    def _save(self) -> None:
        """Has the trial save, and waits for its end.

        In a signal's handler: the `wait` of `__call__`, which the signal has interrupted, holds the lock of Popen, so
        that a second one would see no end before its time is up.
        """
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _SAVING_SECONDS
        with contextlib.suppress(ChildProcessError):  # its end has been seen already
            while time.monotonic() < deadline:
                if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return
                time.sleep(0.1)
