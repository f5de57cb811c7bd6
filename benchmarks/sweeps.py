"""Measures the overhead of the runners of studies, with a study whose trials sleep for a second, one at a time.

    attention-research bench sweeps [--json]

The baseline is a loop over the commands of the trials: each is a Python process that imports JAX and sleeps. Two
studies with different numbers of trials give a straight line. Its slope minus that of the loop is the overhead per
trial, and its intercept is the fixed cost. The benchmark starts Ray itself. Slurm is measured if it is available.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ._interleaved import ROOT, log, made, present, versions

SECONDS, FEW, MANY, ROUNDS = 1.0, 2, 10, 3
STUDY = f'''"""Trials that sleep."""

import time

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed


def slept(*, number, seed):
    time.sleep({SECONDS})
    return {{"number": number}}


STUDY = Study(
    rows=tuple(Row(f"row{{i}}", f"row {{i}}", settings={{"number": i}}) for i in range({MANY})),
    scales={{"quick": Scale(seeds=1)}},
    stages=(measure(slept),),
    columns=(Column("measure.number", "number", fixed(0)),),
)
'''


def command(folder: Path, *arguments: str) -> None:
    """Runs one of our commands in a folder."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    subprocess.run(
        [sys.executable, "-m", "attention_research", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True,
    )  # fmt: skip


def planned(folder: Path, trials: int) -> list[str]:
    """The arguments that run the first `trials` trials in a folder."""
    rows = ",".join(f"row{i}" for i in range(trials))
    return ["reproduce", "sleep.py", "--scale=quick", f"--rows={rows}", "--jobs=1", f"--workdir={folder}"]


def loop(folder: Path, trials: int) -> float:
    """The seconds of the commands of the trials, run in sequence."""
    command(folder, *planned(folder / "run", trials))  # plans the trials; their results are deleted
    for result in [*folder.glob("run/trials/*/result.json"), *folder.glob("run/trials/*/stages/*.json")]:
        result.unlink()
    began = time.perf_counter()
    for trial in sorted(folder.glob("run/trials/*")):
        command(folder, "attempt", str(trial))
    return time.perf_counter() - began


def runner(kind: str, folder: Path, trials: int) -> float:
    """The seconds of the whole command with a runner."""
    began = time.perf_counter()
    command(folder, *planned(folder / "run", trials), f"--runner={kind}")
    return time.perf_counter() - began


def seconds(kind: str, trials: int) -> float:
    """The seconds of this number of trials, by the loop or a runner."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sleep.py").write_text(STUDY)
        return loop(folder, trials) if kind == "loop" else runner(kind, folder, trials)


def measure(rounds: int = ROUNDS, few: int = FEW, many: int = MANY) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    slurm = shutil.which("sinfo") and subprocess.run(["sinfo"], capture_output=True).returncode == 0
    kinds = ["loop", "local", *(["ray"] if versions("ray") else []), *(["slurm"] if slurm else [])]
    taken: dict[str, dict[int, list[float]]] = {kind: {few: [], many: []} for kind in kinds}
    for number in range(rounds):
        for kind in kinds:
            for trials in (few, many):
                taken[kind][trials].append(seconds(kind, trials))
        log(f"round {number + 1} of {rounds}")
    figures: dict[str, Any] = {}
    for kind, by_count in taken.items():
        less, more = (statistics.median(by_count[trials]) for trials in (few, many))
        slope = (more - less) / (many - few)
        figures[kind] = {"seconds": by_count, "a_trial_s": slope, "once_s": less - few * slope}
    for kind in kinds[1:]:
        figures[kind]["overhead_a_trial_s"] = figures[kind]["a_trial_s"] - figures["loop"]["a_trial_s"]
    shape = {"asleep_s": SECONDS, "trials": [few, many], "rounds": rounds}
    return {"benchmark": "sweeps", "shape": shape, **made(), "versions": versions("ray", "submitit"), **figures}


def show(document: dict[str, Any]) -> None:
    """Prints one line for each runner."""
    for kind in ("loop", "local", "ray", "slurm"):
        if (found := document.get(kind)) is not None:
            more = f", overhead of the runner {found['overhead_a_trial_s']:+.2f} s" if kind != "loop" else ""
            print(f"  {kind:<6} {found['once_s']:6.1f} s once, {found['a_trial_s']:5.2f} s per trial{more}")


def main(json: bool = False, rounds: int = ROUNDS, few: int = FEW, many: int = MANY) -> None:
    """Measures and prints a table, or with `json` one JSON document."""
    present(measure(rounds, few, many), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--many", type=int, default=MANY)
    given = parser.parse_args()
    main(given.json, given.rounds, given.few, given.many)
