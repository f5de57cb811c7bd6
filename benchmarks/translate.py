"""A whole job on one core, against what its users would pick instead: a small translator, here and with JoeyNMT.

    python -m benchmarks.translate [--json] [--updates=4000] [--peer-environment[=DIR] | --joeynmt=PYTHON]

Interface strings, French to English (`ui_translate/fr-en`), a joint vocabulary of 4,000 BPE pieces, 2+2 pre-norm layers
of width 128, AdamW, 64 sentences a batch, greedy translation of the test pairs. Ours is the variant `cpu` of
configs/translation/transformer.py, by the commands `train` and `evaluate`, as a user types them, with an empty
compilation cache. JoeyNMT 2.3 gets the same pairs in the same pieces. Each has a core of its own and both run at the
same time; on a machine with one core they take turns. The times include start-up, compilation and validation, but not
the preparation of the data. BLEU is sacreBLEU's, 13a, of both systems' translations against the same references.

`--peer-environment` makes a virtual environment with JoeyNMT, once, in DIR or in the cache of prepared data. The one in
the cache is used from then on without the option. Without JoeyNMT ours is measured alone.
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
#: Validation on the whole split at four checkpoints, of which one is kept, as JoeyNMT is told to do it.
SETTINGS = {"eval_every": 1000, "eval_batches": 18, "log_every": 100, "keep": 1, "keep_best": 0}
#: Minutes.
AT_MOST = 5.0
#: Both systems' commands.
RUNNING: set[subprocess.Popen] = set()


def overrides(updates: int) -> list[tuple[str, str]]:
    """What the job changes of the config; another number of updates has schedule, validation and log in proportion."""
    every = min(1000, updates)
    if updates == UPDATES:
        return [(f"training.{path}", str(value)) for path, value in SETTINGS.items()]
    paths = {**SETTINGS, "steps": updates, "schedule.warmup_steps": max(1, updates // 10)}
    paths |= {"log_every": math.gcd(100, every), "eval_every": every, "checkpoint_every": every}
    return [(f"training.{path}", str(value)) for path, value in paths.items()]


def resolved(updates: int) -> Any:
    """Our config."""
    from attention_research.config import load

    return load(CONFIG, overrides(updates))


def measured(commands: Mapping[str, Sequence[Any]], core: int, folder: Path, settings: Mapping[str, str]) -> dict:
    """Commands one after the other on a core: seconds of each, and of all minutes, user and system seconds and the
    largest peak memory of a process. What they print goes to files in `folder`."""
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
    """Our commands, and the BLEU that `evaluate` found."""
    command = [sys.executable, "-m", "attention_research"]
    changed = [f"--config.{path}={value}" for path, value in overrides(updates)]
    workdir = f"--workdir={folder / 'run'}"
    commands = {"train": [*command, "train", f"--config={CONFIG}", workdir, *changed],
                "test": [*command, "evaluate", workdir]}  # fmt: skip
    found = measured(commands, core, folder, empty_cache(folder / "cache"))
    scores = json_module.loads((folder / "run" / "evaluation.json").read_text())
    return {**found, "bleu": round(scores["bleu"], 2), "sentences": scores["sentences"]}


def empty_cache(folder: Path) -> dict[str, str]:
    """The environment of a user who has the data and has compiled nothing yet."""
    from attention_research.data import storage

    data = str(storage.folder())
    return {"XDG_CACHE_HOME": str(folder), "ATTENTION_RESEARCH_DATA": data, "JAX_COMPILATION_CACHE_DIR": ""}


def joeynmt(python: Path, config: Any, data: Any, folder: Path, core: int) -> dict[str, Any]:
    """JoeyNMT's commands, and the BLEU of what it wrote."""
    from attention_research.tasks.evaluation import corpus_bleu

    train, test = _joeynmt.write_configs(config.resolved, folder / "data")
    command, written = [python, "-m", "joeynmt"], folder / "translations"
    commands = {"train": [*command, "train", train, "--skip-test"], "test": [*command, "test", test, "-o", written]}
    found = measured(commands, core, folder, {"PYTHONPATH": ""})
    texts, references = _joeynmt.translations(folder / "translations.test"), data.text("test")[1]
    return {**found, "bleu": round(corpus_bleu(texts, references)[0], 2), "sentences": len(texts)}


def cores() -> list[int]:
    """The core of ours and that of JoeyNMT: the last two that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return [allowed[-1], allowed[-2 if len(allowed) > 1 else -1]]


def measure(updates: int = UPDATES, python: Path | None = None) -> dict[str, Any]:
    """The whole benchmark as one JSON document."""
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
            if unfinished:  # a job has failed: it ends the other
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
    """The whole job's minutes, and BLEU not below the peer's."""
    rows = [target("ours: minutes", found["ours"]["minutes"], at_most=AT_MOST)]
    if "joeynmt" in found:
        more = found["ours"]["bleu"] - found["joeynmt"]["bleu"]
        rows.append(target("BLEU: ours less JoeyNMT's", more, at_least=0.0))
    return rows


def show(document: dict[str, Any]) -> None:
    """A line a system."""
    for system, row in document["systems"].items():
        print(
            f"  {system:<8} {row['minutes']:6.1f} min (user {row['user_s']:.0f} s, system {row['system_s']:.0f} s)   "
            f"BLEU {row['bleu']:5.2f}   {row['updates_per_s']:5.1f} updates/s   {row['peak_mb']:6.0f} MB at most"
        )
    print_targets(document["targets"])


def kept_environment() -> Path:
    """The default folder of the environment that holds JoeyNMT."""
    from attention_research.data.storage import folder

    return folder("peers") / "joeynmt"


def peer(joeynmt: str | None, environment: str | None) -> Path | None:
    """The Python that has JoeyNMT: the one given, that of the environment asked for, or the kept one if it is there."""
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
    """Measures and prints: a table, or with `json` one JSON document."""
    present(measure(updates, peer(joeynmt, peer_environment)), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--joeynmt", metavar="PYTHON")
    parser.add_argument("--peer-environment", metavar="DIR", nargs="?", const="")
    given = parser.parse_args()
    main(given.json, given.updates, given.joeynmt, given.peer_environment)
