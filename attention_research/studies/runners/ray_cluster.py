"""Runs trials on the machines of a Ray cluster, an existing one or one that is started here for the study.

A Ray task only starts the trial's command on its node and waits; it does not import JAX. The trial is a separate
process because XLA can abort its process, which Ray could not tell from the death of its own worker. A trial that is
lost with its worker or node is retried from its checkpoint. `loop` does this, not Ray, so that retries are counted and
reported.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError, RunError
from attention_research.studies.attempts import attempts
from attention_research.studies.runners.machine import ClaimedCores, cores
from attention_research.studies.runners.supervision import Ending, ending, start

#: Prefixes of the environment variables that are passed to a trial on its node.
_SENT = ("ATTENTION_RESEARCH_", "JAX_", "XLA_", "TF_CPP_")
_TOKEN = ".seen-by-all-nodes"
_STORE_BYTES = 80 * 2**20  # small: Ray's object store holds only exit statuses


class RayExecutor:
    """Runs ``jobs`` trials at a time, by default as many as the cluster has room for.

    ``address`` is the address of a cluster, HOST:PORT or "auto" (default: RAY_ADDRESS). Without an address, a cluster
    with the cores of this machine is started, and ends with the study. A trial takes ``cores`` cores (by default one,
    or on this machine an equal share) and ``devices`` devices that Ray calls "GPU" (by default one if the cluster has
    any). A trial without devices is pinned to its cores.
    """

    def __init__(
        self,
        jobs: int | None = None,
        *,
        address: str | None = None,
        cores: int | None = None,
        devices: int | None = None,
    ):
        self.address = address or os.environ.get("RAY_ADDRESS")
        self.jobs, self.cores, self.devices = jobs, cores, devices
        self.unfit: set[str] = set()
        self.ray: Any = None

    def open(self, workdir: Path) -> None:
        """Connects to the cluster or starts one.

        Raises RunError if there is no such cluster, if it has no room for a single trial, or if a node does not see the
        study's folder.
        """
        self.ray = _ray(started_here=self.address is None)
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.address is None:
                self.jobs = max(1, min(self.jobs or 1, len(cores())))
                self.cores = self.cores or len(cores()) // self.jobs
                own = {"num_cpus": len(cores()), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
                self.ray.init(address="local", **own, **quiet)
            else:
                _knock(self.address)
                self.ray.init(address=self.address, **quiet)
        except Exception as error:  # Ray raises a plain Exception if a node starts too slowly
            what = f"--address={self.address}: no Ray cluster there" if self.address else "Ray could not be started"
            raise RunError(f"{what} ({_first_line(error)})") from None
        total = self.ray.cluster_resources()
        self.cores = self.cores or 1
        self.devices = (1 if total.get("GPU") else 0) if self.devices is None else self.devices
        fitting = self._fitting()
        if not fitting:
            raise RunError(
                f"no node of the Ray cluster has {self.cores} cores and {self.devices} devices, which a trial takes; "
                "give other --cores and --devices"
            )
        self._check_storage(workdir, fitting)

    def start(self, folder: Path) -> _Trial:
        """Submits a trial to Ray, which starts it on a node with room."""
        sent = {name: value for name, value in os.environ.items() if name.startswith(_SENT)}
        remote = self.ray.remote(num_cpus=self.cores, num_gpus=self.devices, max_retries=0)(supervise)
        if self.unfit:  # Ray cannot exclude nodes, so the task prefers a node that is known to work
            good = [node["NodeID"] for node in self._fitting() if _name(node) not in self.unfit]
            if good:
                remote = remote.options(scheduling_strategy=self._on(random.choice(good), soft=True))
        folder = folder.absolute()
        place = remote.remote(str(folder), str(Path.cwd()), sent, 0 if self.devices else self.cores)
        return _Trial(self, folder, place)

    def close(self) -> None:
        """Cancels the running trials, which die with their tasks, and disconnects."""
        if self.ray is not None:
            self.ray.shutdown()

    def _fitting(self) -> list[dict[str, Any]]:
        """The nodes with enough resources for a trial, free or in use."""

        def fits(has: dict[str, float]) -> bool:
            return has.get("CPU", 0) >= (self.cores or 0) and has.get("GPU", 0) >= (self.devices or 0)

        return [node for node in self.ray.nodes() if node["Alive"] and fits(node["Resources"])]

    def _on(self, node: str, *, soft: bool) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node, soft=soft)

    def _check_storage(self, workdir: Path, nodes: list[dict[str, Any]]) -> None:
        token, word = workdir.absolute() / _TOKEN, secrets.token_hex(8)
        token.write_text(word, encoding="utf-8")
        try:
            look = self.ray.remote(num_cpus=0, max_retries=0)(_read)
            seen = {
                _name(node): look.options(scheduling_strategy=self._on(node["NodeID"], soft=False)).remote(str(token))
                for node in nodes
            }
            blind = [name for name, word_there in seen.items() if self.ray.get(word_there) != word]
        finally:
            token.unlink()
        if blind:
            raise RunError(
                f"{workdir}: {', '.join(sorted(blind))} of the Ray cluster does not see this folder; give a --workdir "
                "on storage that all nodes share"
            )


class _Trial:
    def __init__(self, executor: RayExecutor, folder: Path, place: Any):
        self.executor, self.folder, self.place = executor, folder, place
        self.before = attempts(folder)

    def begun(self) -> bool:
        """Whether the trial's process has started, which adds an attempt."""
        return attempts(self.folder) > self.before

    def ending(self) -> Ending | None:
        """How the trial ended, from the supervising task, or "killed" if Ray lost the task; None if it runs."""
        ray = self.executor.ray
        ready, _ = ray.wait([self.place], timeout=0)
        if not ready:
            return None
        try:
            node, state, line = ray.get(self.place)
        except ray.exceptions.RayTaskError as error:
            return Ending("failed", f"the supervising task failed: {_first_line(error.cause or error)}")
        except ray.exceptions.RayError as error:
            return Ending("killed", f"lost with its worker or its node ({type(error).__name__})")
        if state == "unseen":
            self.executor.unfit.add(node)
            return Ending("killed", line)
        return Ending(state, line)


def supervise(folder: str, directory: str, environment: dict[str, str], pinned: int) -> tuple[str, str, str]:
    """Runs one trial to its end, on its node. Returns (node, state, line).

    The state is "unseen" if the node does not see the shared folder.
    """
    node, here = _here(), Path(folder)

    def unseen() -> str:
        missing = next((path for path in (here / "trial.json", Path(directory)) if not path.exists()), None)
        return f"node {node} does not see {missing}" if missing else ""

    if unseen():
        return node, "unseen", unseen()
    claimed = ClaimedCores(pinned)
    try:
        process = start(here, cores=claimed.cores, environment=environment, directory=Path(directory))
        ended = ending(here, process.wait())
    finally:
        claimed.release()
    return (node, "unseen", unseen()) if unseen() else (node, *ended)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _here() -> str:
    import ray

    return f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def _knock(address: str) -> None:
    """Raises OSError at once if nothing listens at HOST:PORT. Ray itself tries for more than a minute."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _ray(*, started_here: bool) -> Any:
    """The module ray, without usage statistics. A cluster that is started here accepts only tasks of this process.

    Raises ConfigError if Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if started_here:
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    try:
        import ray
    except ImportError:
        raise ConfigError("--runner=ray: Ray is missing; pip install 'attention_research[sweep]'") from None
    return ray
