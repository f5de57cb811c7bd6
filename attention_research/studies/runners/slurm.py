"""Runs trials as jobs of a Slurm cluster, with submitit.

A job only starts the trial's command and waits. If the command is killed, the same job starts it again. If Slurm ends
the job, because its time is up or it is preempted, the trial saves a checkpoint and the job is submitted again. A job
that is lost with its node is submitted again by `loop`.
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
#: Signals that Slurm sends to all processes of a job before its time is up, as submitit requests.
_PREEMPTION = (signal.SIGUSR1, signal.SIGUSR2)


class SlurmExecutor:
    """Submits ``jobs`` trials at a time, by default all at once, and leaves their order to Slurm's queue.

    A job takes ``cores`` cores (default 1) and ``devices`` GPUs (default 0). ``slurm`` holds settings of sbatch by
    their long names, such as ``{"partition": "gpu", "time": 240}``. Logs and submitit's files are in the study's folder
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
        """Prepares the submission of jobs. Raises RunError if Slurm is not available on this machine."""
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
        except NameError as error:  # its other lines list all valid names
            raise ConfigError(f"--slurm: {str(error).splitlines()[0]}") from None

    def start(self, folder: Path) -> _Trial:
        """Submits a trial. Raises RunError if sbatch refuses it."""
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
        """Cancels the jobs that have not ended."""
        for trial in self.running:
            trial.job.cancel()

    def in_queue(self, number: str) -> bool:
        """Whether Slurm still has the job. Queries all jobs at once, at most every five seconds."""
        if time.monotonic() - self.looked > _LOOK_SECONDS:
            found = subprocess.run(["squeue", "--me", "--noheader", "--format=%i"], capture_output=True, text=True)
            if found.returncode == 0:  # if the controller does not answer, the jobs are not lost
                self.looked, self.queued = time.monotonic(), set(found.stdout.split())
        return number in self.queued


class _Trial:
    def __init__(self, executor: SlurmExecutor, folder: Path, job: Any):
        self.executor, self.folder, self.job = executor, folder, job
        self.before = attempts(folder)

    def begun(self) -> bool:
        """Whether the trial's process has started, which adds an attempt."""
        return attempts(self.folder) > self.before

    def ending(self) -> Ending | None:
        """How the trial ended, from the job's result; "killed" if the job is gone without a result; None if it runs."""
        told = self.job.paths.result_pickle.exists()
        if not told and self.executor.in_queue(self.job.job_id):
            return None
        if not told and not self.job.paths.result_pickle.exists():
            self.executor.running.remove(self)
            return Ending("killed", f"Slurm's job {self.job.job_id} is gone")
        self.executor.running.remove(self)
        error = self.job.exception()
        if error is not None:
            return Ending("failed", f"Slurm's job {self.job.job_id}: {str(error).strip().splitlines()[-1]}")
        return Ending(*self.job.result())


class Supervised:
    """Runs one trial to its end, inside a job. submitit calls `checkpoint` when Slurm is about to end the job."""

    def __init__(self, folder: str, directory: str):
        self.folder, self.directory = folder, directory
        self.process: subprocess.Popen | None = None

    def __call__(self) -> tuple[str, str]:
        """Runs the trial and returns its (state, line). Does not return if Slurm ends the job: it may be requeued."""
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
        """Asks the trial to save a checkpoint, and submits the same job again."""
        import submitit

        self._save()
        return submitit.helpers.DelayedSubmission(Supervised(self.folder, self.directory))

    def _save(self) -> None:
        """Asks the trial to save a checkpoint, and waits for its end.

        This runs in a signal handler. The interrupted `wait` in `__call__` holds the lock of Popen, so a second `wait`
        here would not return before its timeout. Therefore it calls `os.waitid`.
        """
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _SAVING_SECONDS
        with contextlib.suppress(ChildProcessError):  # the process has been waited for already
            while time.monotonic() < deadline:
                if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return
                time.sleep(0.1)
