"""Trials on the machines of a Ray cluster: one that is there, or one started here for the while.

A Ray task does nothing but start the trial's command on its node and wait (XLA can abort a process, and Ray could not
tell that from its own workers dying); it imports no JAX. What is lost with its worker or its node is tried again from
the trial's checkpoint, by `crew`, not by Ray: so that it is counted and told.
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

#: What of the environment goes with a trial to its node.
_SENT = ("ATTENTION_RESEARCH_", "JAX_", "XLA_", "TF_CPP_")
_TOKEN = ".seen-by-all-nodes"
_STORE_BYTES = 80 * 2**20  # nothing goes through Ray's object store but exit statuses


class RayCrew:
    """``jobs`` trials at a time, by default as many as the cluster has room for.

    ``address`` is that of a cluster (HOST:PORT, or "auto"; RAY_ADDRESS otherwise); without one a cluster of this
    machine's cores is started, and ended with the study. A trial takes ``cores`` cores (by default one, on this machine
    its share) and ``devices`` GPUs or whatever Ray calls "GPU" (by default one where the cluster has any); one that
    takes no device is pinned to its cores.
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
        """Connects or starts. Raises RunError where there is no such cluster, it has no room for even one trial, or a
        node does not see the study's folder."""
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
        except (OSError, RuntimeError, ValueError) as error:
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
        """Hands it to Ray, which starts it where there is room."""
        sent = {name: value for name, value in os.environ.items() if name.startswith(_SENT)}
        remote = self.ray.remote(num_cpus=self.cores, num_gpus=self.devices, max_retries=0)(supervise)
        if self.unfit:  # Ray cannot be told where not to go: towards one that is known to be good
            good = [node["NodeID"] for node in self._fitting() if _name(node) not in self.unfit]
            if good:
                remote = remote.options(scheduling_strategy=self._on(random.choice(good), soft=True))
        folder = folder.absolute()
        place = remote.remote(str(folder), str(Path.cwd()), sent, 0 if self.devices else self.cores)
        return _Trial(self, folder, place)

    def close(self) -> None:
        """Cancels what runs (the trials die with their tasks) and disconnects."""
        if self.ray is not None:
            self.ray.shutdown()

    def _fitting(self) -> list[dict[str, Any]]:
        """The nodes that have what a trial takes, free or not."""

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
    def __init__(self, crew: RayCrew, folder: Path, place: Any):
        self.crew, self.folder, self.place = crew, folder, place
        self.before = attempts(folder)

    def begun(self) -> bool:
        """Whether its process has taken its number."""
        return attempts(self.folder) > self.before

    def ending(self) -> Ending | None:
        """What the supervising task says, or that Ray has lost it."""
        ray = self.crew.ray
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
            self.crew.unfit.add(node)
            return Ending("killed", line)
        return Ending(state, line)


def supervise(folder: str, directory: str, environment: dict[str, str], pinned: int) -> tuple[str, str, str]:
    """On the node: run one trial to its end; (node, state, line), "unseen" where the node lacks the shared folder."""
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
    """Raises OSError where nobody listens at HOST:PORT, at once: Ray asks for a minute and more."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal() and "//" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _ray(*, started_here: bool) -> Any:
    """Ray, told to keep to itself; a cluster of our own takes nobody's tasks but ours."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if started_here:
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
    try:
        import ray
    except ImportError:
        raise ConfigError("--runner=ray: Ray is missing; pip install 'attention_research[sweep]'") from None
    return ray
