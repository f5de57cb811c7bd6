"""Divides the cores and accelerators of a machine among concurrent trials."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

#: Names under /dev (file of the driver, pattern with one file for each GPU) -> variable that selects visible GPUs.
_GPUS = {
    ("nvidiactl", "nvidia[0-9]*"): "CUDA_VISIBLE_DEVICES",
    ("kfd", "dri/renderD*"): "ROCR_VISIBLE_DEVICES",
}
_TPU_PORT = 8476


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def shares(things: list[int], jobs: int) -> list[list[int]]:
    """Splits a list into consecutive shares, one for each job. The first jobs get the remainder.

    >>> shares([0, 1, 2, 3, 4], jobs=2)
    [[0, 1, 2], [3, 4]]
    """
    size, more = divmod(len(things), jobs)
    starts = [i * size + min(i, more) for i in range(jobs + 1)]
    return [things[a:b] for a, b in zip(starts, starts[1:], strict=False)]


def device_environments(jobs: int, devices: Path = Path("/dev")) -> list[dict[str, str]]:
    """The environment variables that give each job its own accelerators; empty without accelerators or for one job.

    If there are more jobs than GPUs, jobs share a GPU and divide 0.9 of its memory. A TPU chip belongs to one process,
    so if there are more jobs than chips, jobs wait inside libtpu.
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
    devices = shares(list(range(len(visible))), jobs)
    if jobs <= len(visible):
        return [{variable: ",".join(visible[i] for i in share)} for share in devices]
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
    """Claims cores of this machine that no other process has claimed; the claim ends with `release` or the process.

    Ray counts cores but does not pin processes to them, so two trials on a machine would each use all cores. If fewer
    than `count` cores are free, the claim holds those.
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
        """Releases the cores."""
        for file in self.files:
            file.close()
