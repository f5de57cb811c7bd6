"""One trial in a fresh process: what ``attention-research attempt TRIAL_DIR`` does.

Runs the stages of ``TRIAL_DIR/trial.json`` in turn, skipping those whose results are there, and writes ``result.json``
at the end; a trial that is finished is left as it is. A fine-tuning that fails leaves the other stages standing: the
result says which "failed", and the next attempt runs these again. Exit status 0 done, 1 failed (``error.txt`` holds the
line), 2 the configuration is wrong, 75 a later attempt has the folder. The process takes its share of the cores before
JAX counts them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError, Diverged, RunError
from attention_research.studies import fingerprints
from attention_research.studies.attempts import Attempt, spent
from attention_research.studies.bounds import bounded
from attention_research.studies.orphans import die_with
from attention_research.studies.priority import nice_session
from attention_research.studies.references import dereference
from attention_research.studies.trials import PROGRAM, read_program, read_result, write_json
from attention_research.training.environment import keep_compiled_programs
from attention_research.training.failure import line_of
from attention_research.training.interruption import Interrupted
from attention_research.training.workdir import read_metrics

# What a record has no use for: the command line holds folders of the machine.
_PERSONAL = ("command", "cores")


def work(folder: Path, *, cores: Sequence[int] = (), parent: int | None = None) -> int:
    """Run one trial, as the newest attempt at it; returns the exit status.

    `cores` are those to run on; with `parent`, a process, this one dies when that one does.
    """
    if parent is not None:
        die_with(parent)
    nice_session()
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(cores))
    try:
        attempt = Attempt.begin(folder)
        before = read_result(folder)
        if before is not None and "failed" not in before:
            return 0
        keep_compiled_programs()
        started = time.perf_counter()
        try:
            failed = run_trial(folder, attempt).get("failed", {})
        finally:  # also where it was asked to stop
            attempt.ends(time.perf_counter() - started)
        if failed:
            raise RunError("; ".join(f"fine-tuning {name}: {line}" for name, line in failed.items()))
    except Exception as error:
        if not isinstance(error, ConfigError | RunError):
            traceback.print_exc()
        line = line_of(error)
        (folder / "error.txt").write_text(line + "\n", encoding="utf-8")
        print(f"error: {line}", file=sys.stderr, flush=True)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def run_trial(folder: Path, attempt: Attempt) -> dict[str, Any]:
    """Run the unfinished stages of a trial and write its result, which is returned.

    A trial that is asked to stop saves, runs no further stage, and has "stopped" in its result: who asked, and when.
    One that is asked to stop for now raises Interrupted, as after a signal: it has no result, the next attempt goes on.
    """
    from attention_research.accounting import memory
    from attention_research.training import environment

    trial = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    config = None
    if trial["given"] is not None:
        from attention_research import config as configs

        config = configs.resolve(trial["given"])
    program = begin(folder, trial)
    results: dict[str, Any] = {}
    failed: dict[str, str] = {}
    diverged = stopped = None
    started, earlier = time.perf_counter(), spent(folder)
    for stage in trial["stages"]:
        saved = folder / "stages" / f"{stage['address']}.json"
        if saved.exists():
            _add(results, stage, json.loads(saved.read_text(encoding="utf-8")))
            continue
        if stage["kind"] in ("train", "finetune") and (stopped := attempt.stopped()) is not None:
            if stopped.get("again"):
                raise Interrupted(signal.SIGTERM, stopped["reason"])
            break  # an earlier attempt could not save any more
        write_json(folder / "progress.json", _begun(stage))
        memory.reset_peak_resident()
        began = time.perf_counter()
        try:
            outcome: dict[str, Any] = _numbers(STAGES[stage["kind"]](stage, config, folder))
        except Diverged as error:  # a finding about the row, not a failure of the machine: the trial is finished
            if stage["kind"] != "finetune":
                diverged = str(error)
                break
            outcome = {"diverged": str(error)}
        except Interrupted:
            stopped = attempt.stopped()
            if stopped is None or stopped.get("again"):  # the trial is not finished, the next attempt goes on
                raise
            break
        except Exception as error:
            if stage["kind"] != "finetune":
                raise
            traceback.print_exc()
            failed[stage["settings"]["name"]] = line_of(error)
            continue
        outcome["stage_seconds"] = time.perf_counter() - began
        outcome.setdefault("peak_memory_bytes", memory.peak_resident_bytes())
        attempt.leave_if_superseded()
        write_json(saved, outcome)
        _add(results, stage, outcome)
    if trial["count"] and config is not None:
        from attention_research.training import inspection

        counted = inspection.inspect(config)
        results["inspect"] = {name: counted[name] for name in ("parameters", "flops")}
    peaks = [outcome["peak_memory_bytes"] for outcome in results.values() if "peak_memory_bytes" in outcome]
    planned = ("id", "row", "seed", "point", "identity", "config_hash", "given")
    written: dict[str, Any] = {
        **{name: trial[name] for name in planned},
        "fingerprint": fingerprints.line(program),
        "program": program,
        "stages": results,
        "diverged": diverged,
        **({} if stopped is None else {"stopped": stopped.get("reason", "")}),
        **({"failed": failed} if failed else {}),
        "curves": curves(folder / "metrics.jsonl"),
        "environment": {name: value for name, value in environment.describe().items() if name not in _PERSONAL},
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "peak_memory_bytes": max(peaks, default=None),
        "seconds": earlier + time.perf_counter() - started,
    }
    result = bounded(written)
    attempt.leave_if_superseded()
    write_json(folder / "result.json", result)
    return result


def begin(folder: Path, trial: dict[str, Any]) -> dict[str, str]:
    """The program with which the work in a trial's folder was begun; that of this process where it begins now."""
    program = read_program(folder)
    if program is None:
        program = fingerprints.program_of(trial["stages"], trial["given"])
        write_json(folder / PROGRAM, program)
    return program


def _add(results: dict[str, Any], stage: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Several measurements of a trial are read as one; fine-tunings stand under their names."""
    name = stage["settings"]["name"] if stage["kind"] == "finetune" else stage["kind"]
    results[name] = {**results.get(name, {}), **outcome}


def _begun(stage: dict[str, Any]) -> dict[str, Any]:
    """What progress.json says of a stage: its kind, and of a fine-tuning its name, steps and folder."""
    if stage["kind"] != "finetune":
        return {"stage": stage["kind"]}
    from attention_research.studies.finetuning import inside

    settings = stage["settings"]
    return {"stage": "finetune", "name": settings["name"], "steps": settings["steps"], "folder": inside(stage)}


def _train(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.training.run import train

    return train(config, folder, lambda line: print(line, flush=True))


def _evaluate(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.training.evaluation import evaluate

    return evaluate(folder, lambda line: print(line, flush=True))


def _measure(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    settings = stage["settings"] if config is None else {**stage["settings"], "workdir": folder}
    return dereference(stage["function"])(**settings)


def _deal(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.studies.groups import deal

    return deal(stage, config, folder)


def _finetune(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.studies import finetuning

    return finetuning.run(stage, folder, lambda line: print(line, flush=True))


def _floors(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.studies import floors

    return dict(floors.measure(stage, config.given, lambda line: print(line, flush=True)))


#: kind of stage -> function(stage, config, folder) -> flat dict
STAGES = {
    "train": _train,
    "evaluate": _evaluate,
    "measure": _measure,
    "deal": _deal,
    "finetune": _finetune,
    "floors": _floors,
}


def curves(metrics: Path) -> dict[str, list[list[float]]]:
    """split -> [[step, loss], ...] of a run's metrics; of a step logged twice the later."""
    found: dict[str, dict[int, float]] = {}
    for entry in read_metrics(metrics.parent):
        if {"split", "step", "loss"} <= entry.keys():
            found.setdefault(entry["split"], {})[entry["step"]] = entry["loss"]
    return {split: [[step, loss] for step, loss in sorted(points.items())] for split, points in found.items()}


def _numbers(outcome: dict[str, Any]) -> dict[str, Any]:
    """The same with plain Python numbers in place of NumPy's."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in outcome.items()}
