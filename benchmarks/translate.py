"""Compares a whole translation job on one core with JoeyNMT: training and testing a small model.

    python -m benchmarks.translate [--json] [--updates=4000] [--peer-environment[=DIR] | --joeynmt=PYTHON]

The data are interface strings, French to English (`ui_translate/fr-en`), with a joint vocabulary of 4,000 BPE pieces.
The model has 2+2 pre-norm layers of width 128 and is trained by AdamW with 64 sentences per batch. The test pairs are
translated greedily. Our system is the variant `cpu` of configs/translation/transformer.py, run by the commands `train`
and `evaluate` with an empty compilation cache. JoeyNMT 2.3 uses the same pairs in the same pieces. Each system has its
own core and both run at the same time; on a machine with one core, they run in sequence. The times include start-up,
compilation and validation, but not the preparation of the data. BLEU is computed by sacreBLEU (13a) for both systems
against the same references.

`--peer-environment` creates a virtual environment with JoeyNMT in DIR, or in the cache of prepared data. Later runs use
the environment in the cache without the option. Without JoeyNMT, only our system is measured.
"""

from __future__ import annotations

import argparse
import json as json_module
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from . import _joeynmt
from ._interleaved import ROOT, log, made, present, print_targets, target, versions

CONFIG = "translation/transformer:cpu"
UPDATES = 4000
#: Validation on the whole split at four checkpoints, of which one is kept, as in the config of JoeyNMT.
SETTINGS = {"eval_every": 1000, "eval_batches": 18, "log_every": 100, "keep": 1, "keep_best": 0}
#: The target for our system, in minutes.
AT_MOST = 5.0
#: The running commands of both systems.
RUNNING: set[subprocess.Popen] = set()


def overrides(updates: int) -> list[tuple[str, str]]:
    """The overrides of the config. For another number of updates, schedule, validation and logging are scaled."""
    every = min(1000, updates)
    if updates == UPDATES:
        return [(f"training.{path}", str(value)) for path, value in SETTINGS.items()]
    paths = {**SETTINGS, "steps": updates, "schedule.warmup_steps": max(1, updates // 10)}
    paths |= {"log_every": math.gcd(100, every), "eval_every": every, "checkpoint_every": every}
    return [(f"training.{path}", str(value)) for path, value in paths.items()]


def resolved(updates: int) -> Any:
    """Our resolved config."""
    from attention_research.config import load

    return load(CONFIG, overrides(updates))


def measured(commands: Mapping[str, Sequence[Any]], core: int, folder: Path, settings: Mapping[str, str]) -> dict:
    """Runs commands in sequence on one core. Their output is written to files in `folder`.

    Returns the seconds of each command, the total minutes, user and system seconds, and the largest peak memory of a
    process.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, **settings}
    found: dict[str, Any] = {"seconds": {}, "user_s": 0.0, "system_s": 0.0, "peak_mb": 0.0}
    for name, command in commands.items():
        began = time.perf_counter()
        with open(folder / f"{name}.log", "w") as said:
            pinned = ["taskset", "-c", str(core), *map(str, command)]
            process = subprocess.Popen(pinned, cwd=ROOT, env=environment, stdout=said, stderr=subprocess.STDOUT)
            RUNNING.add(process)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        RUNNING.discard(process)
        if process.returncode:
            last = (folder / f"{name}.log").read_text(errors="replace").splitlines()[-5:]
            raise SystemExit("\n".join([f"{name} of {folder.name}: exit status {process.returncode}", *last]))
        found["seconds"][name] = round(time.perf_counter() - began, 1)
        found["user_s"] += used.ru_utime
        found["system_s"] += used.ru_stime
        found["peak_mb"] = max(found["peak_mb"], used.ru_maxrss / 1024)
        log(f"{folder.name}: {name} took {found['seconds'][name]:.0f} s")
    found["minutes"] = sum(found["seconds"].values()) / 60
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in found.items()}


def ours(updates: int, folder: Path, core: int) -> dict[str, Any]:
    """Runs our commands. Returns their measurements and the BLEU of `evaluate`."""
    command = [sys.executable, "-m", "attention_research"]
    changed = [f"--config.{path}={value}" for path, value in overrides(updates)]
    workdir = f"--workdir={folder / 'run'}"
    commands = {"train": [*command, "train", f"--config={CONFIG}", workdir, *changed],
                "test": [*command, "evaluate", workdir]}  # fmt: skip
    found = measured(commands, core, folder, empty_cache(folder / "cache"))
    scores = json_module.loads((folder / "run" / "evaluation.json").read_text())
    return {**found, "bleu": round(scores["bleu"], 2), "sentences": scores["sentences"]}


def empty_cache(folder: Path) -> dict[str, str]:
    """The environment variables of a user with prepared data and an empty compilation cache."""
    from attention_research.data import storage

    data = str(storage.folder())
    return {"XDG_CACHE_HOME": str(folder), "ATTENTION_RESEARCH_DATA": data, "JAX_COMPILATION_CACHE_DIR": ""}


def joeynmt(python: Path, config: Any, data: Any, folder: Path, core: int) -> dict[str, Any]:
    """Runs the commands of JoeyNMT. Returns their measurements and the BLEU of its translations."""
    from attention_research.tasks.evaluation import corpus_bleu

    train, test = _joeynmt.write_configs(config.resolved, folder / "data")
    command, written = [python, "-m", "joeynmt"], folder / "translations"
    commands = {"train": [*command, "train", train, "--skip-test"], "test": [*command, "test", test, "-o", written]}
    found = measured(commands, core, folder, {"PYTHONPATH": ""})
    texts, references = _joeynmt.translations(folder / "translations.test"), data.text("test")[1]
    return {**found, "bleu": round(corpus_bleu(texts, references)[0], 2), "sentences": len(texts)}


def cores() -> list[int]:
    """The cores of our system and of JoeyNMT: the last two cores that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return [allowed[-1], allowed[-2 if len(allowed) > 1 else -1]]


def measure(updates: int = UPDATES, python: Path | None = None) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    if shutil.which("taskset") is None:
        raise SystemExit("bench translate: taskset is missing (Linux, package util-linux); it gives each side a core")
    config = resolved(updates)
    with tempfile.TemporaryDirectory(prefix="translate-") as name:
        folders = {system: Path(name) / system for system in ("ours", "joeynmt")}
        for folder in folders.values():
            folder.mkdir()
        from attention_research.config import build_experiment

        data = build_experiment(config).data()
        data.prepare(log)
        mine, their = cores()
        jobs: dict[str, Callable[[], dict]] = {"ours": lambda: ours(updates, folders["ours"], mine)}
        if python is not None:
            pairs = _joeynmt.write_data(data, folders["joeynmt"] / "data")
            jobs["joeynmt"] = lambda: joeynmt(python, config, data, folders["joeynmt"], their)
        else:
            pairs = data.sizes()
            log("JoeyNMT is not installed, ours is measured alone; --peer-environment installs it")
        with ThreadPoolExecutor(len({mine, their})) as pool:
            systems = {system: pool.submit(job) for system, job in jobs.items()}
            done, unfinished = wait(systems.values(), return_when=FIRST_EXCEPTION)
            if unfinished:  # one job has failed: stop the other
                pool.shutdown(wait=False, cancel_futures=True)
                for process in RUNNING.copy():
                    process.terminate()
            for job in done:
                job.result()
            found = {system: job.result() for system, job in systems.items()}
    for row in found.values():
        row["updates_per_s"] = round(updates / row["seconds"]["train"], 2)
    return {
        "benchmark": "translate",
        "shape": {
            "data": data.name, "pairs": pairs, "pieces": data.tokenizer.size, "updates": updates,
            "batch": config.resolved["training"]["batch_size"], "width": config.resolved["model"]["width"],
            "layers": "2+2", "cores_each": 1, "at_the_same_time": mine != their,
        },
        **made(),
        "versions": {**versions("jax", "jaxlib", "sacrebleu"), **(_joeynmt.installed(python) if python else {})},
        "systems": found,
        "targets": targets(found) if updates == UPDATES else [],
    }  # fmt: skip


def targets(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The targets: the minutes of the whole job, and a BLEU that is not below that of JoeyNMT."""
    rows = [target("ours: minutes", found["ours"]["minutes"], at_most=AT_MOST)]
    if "joeynmt" in found:
        more = found["ours"]["bleu"] - found["joeynmt"]["bleu"]
        rows.append(target("BLEU: ours less JoeyNMT's", more, at_least=0.0))
    return rows


def show(document: dict[str, Any]) -> None:
    """Prints one line for each system."""
    for system, row in document["systems"].items():
        print(
            f"  {system:<8} {row['minutes']:6.1f} min (user {row['user_s']:.0f} s, system {row['system_s']:.0f} s)   "
            f"BLEU {row['bleu']:5.2f}   {row['updates_per_s']:5.1f} updates/s   {row['peak_mb']:6.0f} MB at most"
        )
    print_targets(document["targets"])


def kept_environment() -> Path:
    """The default folder of the virtual environment with JoeyNMT."""
    from attention_research.data.storage import folder

    return folder("peers") / "joeynmt"


def peer(joeynmt: str | None, environment: str | None) -> Path | None:
    """The Python with JoeyNMT: the given one, that of the requested environment, or that of the default folder if it
    exists. None without JoeyNMT."""
    if joeynmt is not None:
        if not _joeynmt.installed(Path(joeynmt)):
            raise SystemExit(f"--joeynmt={joeynmt}: expected a Python that has the package joeynmt")
        return Path(joeynmt).absolute()
    if environment is not None:
        return _joeynmt.environment(Path(environment) if environment else kept_environment())
    python = kept_environment() / "bin" / "python"
    return python if python.exists() and _joeynmt.installed(python) else None


def main(
    json: bool = False, updates: int = UPDATES, joeynmt: str | None = None, peer_environment: str | None = None
) -> None:
    """Measures and prints a table, or with `json` one JSON document."""
    present(measure(updates, peer(joeynmt, peer_environment)), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--joeynmt", metavar="PYTHON")
    parser.add_argument("--peer-environment", metavar="DIR", nargs="?", const="")
    given = parser.parse_args()
    main(given.json, given.updates, given.joeynmt, given.peer_environment)
