"""Runs one trial in a fresh process, for ``attention-research attempt TRIAL_DIR``.

Runs the stages of ``TRIAL_DIR/trial.json`` in order and writes ``result.json`` at the end. Stages that have a result
are skipped, and a finished trial is not run again. If a fine-tuning fails, the other stages still run: the result lists
it under "failed", and the next attempt runs it again. The exit status is 0 for success, 1 for a failure (``error.txt``
holds the error line), 2 for a wrong config, and 75 if a later attempt has the folder. The process restricts itself to
its cores before JAX counts them.
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
from attention_research.studies.loading import dereference
from attention_research.studies.orphans import die_with
from attention_research.studies.priority import nice_session
from attention_research.studies.trial_folders import (
    PROGRAM,
    outcome_path,
    read_outcome,
    read_program,
    read_result,
    write_json,
)
from attention_research.training.environment import keep_compiled_programs, missing_backend
from attention_research.training.failure import line_of, tell_failure
from attention_research.training.interruption import Interrupted
from attention_research.training.metrics_log import read_metrics

# Parts of the environment that records leave out: the command line contains local paths.
_PERSONAL = ("command", "cores")


def work(folder: Path, *, cores: Sequence[int] = (), parent: int | None = None) -> int:
    """Runs one trial, as the newest attempt at it. Returns the exit status.

    `cores` are the cores to run on (empty: all). With `parent`, a process id, this process dies with that process.
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
        finally:  # also after a request to stop
            attempt.ends(time.perf_counter() - started)
        if failed:
            raise RunError("; ".join(f"fine-tuning {name}: {line}" for name, line in failed.items()))
    except Exception as error:
        error = missing_backend(error) or error
        if not isinstance(error, ConfigError | RunError):
            traceback.print_exc()
        line = line_of(error)
        tell_failure(folder, line)
        print(f"error: {line}", file=sys.stderr, flush=True)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def run_trial(folder: Path, attempt: Attempt) -> dict[str, Any]:
    """Runs the unfinished stages of a trial, then writes and returns its result.

    After a request to stop, the trial saves a checkpoint and runs no further stage, and its result holds the reason
    under "stopped". A request to pause raises Interrupted, as a signal does: the trial has no result, and the next
    attempt continues it.
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
        saved = outcome_path(folder, stage)
        if (earlier_outcome := read_outcome(saved)) is not None:
            _add(results, stage, earlier_outcome)
            continue
        if (of := stage.get("of")) in failed or "diverged" in results.get(of, {}):
            continue  # a fine-tuning without a result is not measured
        if stage["kind"] in ("train", "finetune") and (stopped := attempt.stopped()) is not None:
            if stopped.get("again"):
                raise Interrupted(signal.SIGTERM, stopped["reason"])
            break  # an earlier attempt ended before it could write the result
        write_json(folder / "progress.json", _begun(stage))
        memory.reset_peak_resident()
        began = time.perf_counter()
        try:
            outcome: dict[str, Any] = _numbers(STAGES[stage["kind"]](stage, config, folder))
        except Diverged as error:  # divergence is a result of the row, not a failure: the trial is finished
            if stage["kind"] != "finetune":
                diverged = str(error)
                break
            outcome = {"diverged": str(error)}
        except Interrupted:
            stopped = attempt.stopped()
            if stopped is None or stopped.get("again"):  # the trial is not finished: the next attempt continues it
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
    """The program with which the trial was started. If it starts now, writes the program of this process."""
    program = read_program(folder)
    if program is None:
        program = fingerprints.program_of(trial["stages"], trial["given"])
        write_json(folder / PROGRAM, program)
    return program


def _add(results: dict[str, Any], stage: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Adds the outcome of a stage to `results`. Measurements are merged; fine-tunings are stored under their names."""
    name = stage["settings"]["name"] if stage["kind"] == "finetune" else stage["kind"]
    results[name] = {**results.get(name, {}), **outcome}


def _begun(stage: dict[str, Any]) -> dict[str, Any]:
    """The content of progress.json for a stage: its kind, and for a fine-tuning its name, steps and folder."""
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

    return with_further(evaluate(folder, lambda line: print(line, flush=True)))


def with_further(scores: dict[str, Any]) -> dict[str, Any]:
    """The numbers of further evaluations as "NAME.METRIC" beside those of the main one: ``evaluate.NAME.METRIC``."""
    further = scores.pop("evaluations", {})
    numbers = {
        f"{name}.{metric}": value
        for name, one in further.items()
        for metric, value in one.items()
        if isinstance(value, int | float)
    }
    return {**scores, **numbers}


def _measure(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    run = {} if config is None else {"workdir": folder / stage.get("folder", "")}
    return dereference(stage["function"])(**{**stage["settings"], **run})


def _split(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.studies.groups import split

    return split(stage, config, folder)


def _finetune(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.studies import finetuning

    return finetuning.run(stage, folder, lambda line: print(line, flush=True))


def _floors(stage: dict[str, Any], config: Any, folder: Path) -> dict[str, Any]:
    from attention_research.studies import floors

    return dict(floors.measure(stage, config.given, lambda line: print(line, flush=True)))


#: Kind of stage -> function(stage, config, folder) that returns a flat dictionary.
STAGES = {
    "train": _train,
    "evaluate": _evaluate,
    "measure": _measure,
    "split": _split,
    "finetune": _finetune,
    "floors": _floors,
}


def curves(metrics: Path) -> dict[str, list[list[float]]]:
    """split -> [[step, loss], ...] from the metrics of a run. If a step is logged twice, the later entry counts."""
    found: dict[str, dict[int, float]] = {}
    for entry in read_metrics(metrics.parent):
        if {"split", "step", "loss"} <= entry.keys():
            found.setdefault(entry["split"], {})[entry["step"]] = entry["loss"]
    return {split: [[step, loss] for step, loss in sorted(points.items())] for split, points in found.items()}


def _numbers(outcome: dict[str, Any]) -> dict[str, Any]:
    """The outcome with Python numbers in place of NumPy numbers."""
    return {name: value.item() if hasattr(value, "item") else value for name, value in outcome.items()}
