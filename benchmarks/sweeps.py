"""What a runner costs: a study whose trials do nothing for a second, run by each, one at a time.

    attention-research bench sweeps [--json]

Beside the runners stands the trials' own command, one after the other from a loop: a process of Python that imports JAX
and sleeps. Two studies of different numbers of trials give a straight line: its slope less the loop's is what a runner
costs a trial, its beginning what it costs once. Ray is started for the occasion; Slurm is measured where there is one.
"""

from __future__ import annotations

import argparse
import os
import shutil
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
    """A command of ours in that folder."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    subprocess.run(
        [sys.executable, "-m", "attention_research", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True,
    )  # fmt: skip


def planned(folder: Path, trials: int) -> list[str]:
    """The options that run the first so many trials in a folder of their own."""
    rows = ",".join(f"row{i}" for i in range(trials))
    return ["reproduce", "sleep.py", "--scale=quick", f"--rows={rows}", "--jobs=1", f"--workdir={folder}"]


def loop(folder: Path, trials: int) -> float:
    """Seconds of the trials' own commands, one after the other."""
    command(folder, *planned(folder / "run", trials))  # plans them; their results go
    for result in [*folder.glob("run/trials/*/result.json"), *folder.glob("run/trials/*/stages/*.json")]:
        result.unlink()
    began = time.perf_counter()
    for trial in sorted(folder.glob("run/trials/*")):
        command(folder, "attempt", str(trial))
    return time.perf_counter() - began


def runner(kind: str, folder: Path, trials: int) -> float:
    """Seconds of the whole command."""
    began = time.perf_counter()
    command(folder, *planned(folder / "run", trials), f"--runner={kind}")
    return time.perf_counter() - began


def seconds(kind: str, trials: int) -> float:
    """Of so many trials."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sleep.py").write_text(STUDY)
        return loop(folder, trials) if kind == "loop" else runner(kind, folder, trials)


def measure(rounds: int = ROUNDS, few: int = FEW, many: int = MANY) -> dict[str, Any]:
    """The whole benchmark as one JSON document."""
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
        less, more = (sorted(by_count[trials])[rounds // 2] for trials in (few, many))
        slope = (more - less) / (many - few)
        figures[kind] = {"seconds": by_count, "a_trial_s": slope, "once_s": less - few * slope}
    for kind in kinds[1:]:
        figures[kind]["overhead_a_trial_s"] = figures[kind]["a_trial_s"] - figures["loop"]["a_trial_s"]
    shape = {"asleep_s": SECONDS, "trials": [few, many], "rounds": rounds}
    return {"benchmark": "sweeps", "shape": shape, **made(), "versions": versions("ray", "submitit"), **figures}


def show(document: dict[str, Any]) -> None:
    """A line a runner."""
    for kind in ("loop", "local", "ray", "slurm"):
        if (found := document.get(kind)) is not None:
            more = f", {found['overhead_a_trial_s']:+.2f} s of it the runner's" if kind != "loop" else ""
            print(f"  {kind:<6} {found['once_s']:6.1f} s once, {found['a_trial_s']:5.2f} s a trial{more}")


def main(json: bool = False, rounds: int = ROUNDS, few: int = FEW, many: int = MANY) -> None:
    """Measures and prints: a table, or with `json` one JSON document."""
    present(measure(rounds, few, many), json, show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--few", type=int, default=FEW)
    parser.add_argument("--many", type=int, default=MANY)
    given = parser.parse_args()
    main(given.json, given.rounds, given.few, given.many)
