"""Assigns cores and accelerators to trials that run side by side."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from attention_research.errors import RunError
from attention_research.studies.runners import machine, ray_cluster
from attention_research.studies.runners.machine import ClaimedCores, device_environments


@pytest.fixture
def devices(tmp_path, monkeypatch):
    """Creates a /dev with these files. No variable restricts the visible devices yet."""
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(name, raising=False)

    def made(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return tmp_path

    return made


def test_no_variables_are_set_without_accelerators_or_for_one_job(devices):
    assert device_environments(3, devices("null", "dri/renderD128")) == [{}] * 3
    assert device_environments(1, devices("nvidiactl", "nvidia0", "nvidia1")) == [{}]


def test_each_job_sees_its_own_gpus(devices, monkeypatch):
    place = devices("nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(5)))
    assert device_environments(2, place) == [{"CUDA_VISIBLE_DEVICES": "0,1,2"}, {"CUDA_VISIBLE_DEVICES": "3,4"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,GPU-ab")
    assert device_environments(2, place) == [{"CUDA_VISIBLE_DEVICES": "7"}, {"CUDA_VISIBLE_DEVICES": "GPU-ab"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert device_environments(2, place) == [{}, {}]


def test_more_jobs_than_gpus_share_their_memory(devices):
    found = device_environments(3, devices("nvidiactl", "nvidia0", "nvidia1"))
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["0", "1", "0"]
    assert {one["XLA_PYTHON_CLIENT_MEM_FRACTION"] for one in found} == {"0.45"}


def test_other_vendors(devices):
    assert device_environments(2, devices("kfd", "dri/renderD128", "dri/renderD129")) == [
        {"ROCR_VISIBLE_DEVICES": "0"},
        {"ROCR_VISIBLE_DEVICES": "1"},
    ]


def test_each_job_has_a_chip_of_a_tpu(devices):
    found = device_environments(3, devices("accel0", "accel1"))
    assert [one["TPU_VISIBLE_DEVICES"] for one in found] == ["0", "1", "0"]
    assert len({one["TPU_MESH_CONTROLLER_PORT"] for one in found}) == 2


def test_cores_are_claimed_once_and_released_with_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: [2, 3, 5])
    first, second = ClaimedCores(2, tmp_path), ClaimedCores(2, tmp_path)
    assert (first.cores, second.cores) == ([2, 3], [5])
    first.release()
    assert ClaimedCores(1, tmp_path).cores == [2]
    code = f"from pathlib import Path; import os; from attention_research.studies.runners import machine; \
machine.cores = lambda: [3]; print(machine.ClaimedCores(1, Path({str(tmp_path)!r})).cores); os._exit(9)"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[3]\n"


@pytest.mark.parametrize("kind", [Exception, RuntimeError, OSError])
def test_ray_that_does_not_start_is_one_line(kind, tmp_path, monkeypatch):
    """Ray raises a plain Exception if the machine is too slow."""

    def init(**settings):
        raise kind("The current node timed out\nduring startup")

    monkeypatch.setattr(ray_cluster, "_ray", lambda started_here: SimpleNamespace(init=init))
    with pytest.raises(RunError, match=r"^Ray could not be started \(The current node timed out\)$"):
        ray_cluster.RayExecutor(1).open(tmp_path)
