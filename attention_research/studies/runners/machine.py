"""A machine's cores and accelerators, dealt to trials that run side by side."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

#: Under /dev: (what a machine with such GPUs has, one file a GPU), and the variable that says which a process sees.
_GPUS = {
    ("nvidiactl", "nvidia[0-9]*"): "CUDA_VISIBLE_DEVICES",
    ("kfd", "dri/renderD*"): "ROCR_VISIBLE_DEVICES",
}
_TPU_PORT = 8476


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def shares(things: list[int], jobs: int) -> list[list[int]]:
    """The things dealt to the jobs, neighbours together; what does not divide goes to the first."""
    size, more = divmod(len(things), jobs)
    starts = [i * size + min(i, more) for i in range(jobs + 1)]
    return [things[a:b] for a, b in zip(starts, starts[1:], strict=False)]


def device_environments(jobs: int, devices: Path = Path("/dev")) -> list[dict[str, str]]:
    """For each of the jobs the variables that show it its own accelerators; nothing where there are none, or one job.

    More jobs than GPUs share them: each gets its part of a GPU's memory, 0.9 in all. A TPU's chip is one process's, so
    that more jobs than chips wait inside libtpu.
    """
    if jobs == 1:
        return [{}]
    for (driver, pattern), variable in _GPUS.items():
        there = [str(number) for number, _ in enumerate(devices.glob(pattern))] if (devices / driver).exists() else []
        visible = [name for name in os.environ.get(variable, ",".join(there)).split(",") if name]
        if there and visible:
            return _gpu_environments(variable, visible, jobs)
    chips = len([*devices.glob("accel[0-9]*"), *devices.glob("vfio/[0-9]*")])
    return [_chip_environment(job % chips) if chips else {} for job in range(jobs)]


def _gpu_environments(variable: str, visible: list[str], jobs: int) -> list[dict[str, str]]:
    dealt = shares(list(range(len(visible))), jobs)
    if jobs <= len(visible):
        return [{variable: ",".join(visible[i] for i in share)} for share in dealt]
    together = -(-jobs // len(visible))
    memory = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / together:.2f}")
    return [{variable: visible[job % len(visible)], "XLA_PYTHON_CLIENT_MEM_FRACTION": memory} for job in range(jobs)]


def _chip_environment(chip: int) -> dict[str, str]:
    port = str(_TPU_PORT + chip)
    return {
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_VISIBLE_DEVICES": str(chip),
        "TPU_MESH_CONTROLLER_ADDRESS": f"localhost:{port}",
        "TPU_MESH_CONTROLLER_PORT": port,
    }


class ClaimedCores:
    """Some cores of this machine that no other process has claimed so; let go with the object or the process.

    Ray counts cores and pins none: two trials on a machine would each take all of them. Where too few are free the
    claim is what there is.
    """

    def __init__(self, count: int, folder: Path | None = None):
        folder = folder or Path(tempfile.gettempdir()) / f"attention-research-cores-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        self.files: list[IO] = []
        self.cores: list[int] = []
        for core in cores():
            if len(self.cores) == count:
                break
            file = open(folder / str(core), "a")  # noqa: SIM115 (held, not used)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            self.files.append(file)
            self.cores.append(core)

    def release(self) -> None:
        """Lets them go."""
        for file in self.files:
            file.close()
