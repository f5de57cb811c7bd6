"""A trial's stages in this process, with fake training and evaluation: order, resuming, divergence, exit status."""

import dataclasses
import json
import sys
import types

import jax
import pytest
from results_of import trial

from attention_research.config import ConfigError
from attention_research.errors import Diverged, RunError
from attention_research.studies import trial_folders, worker
from attention_research.studies.attempts import Attempt
from attention_research.studies.runners.machine import shares
from attention_research.studies.staleness import Current, Stale
from attention_research.studies.trial_folders import Folder, read_program, write_json

PLANNED = ("id", "row", "seed", "point", "identity", "config_hash")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A planned trial with the stages train and evaluate, whose functions are fakes that log their calls."""
    calls = []

    def train(config, workdir, report):
        calls.append("train")
        (workdir / "metrics.jsonl").write_text(
            "".join(
                json.dumps({"step": step, "split": split, "loss": 10.0 / step}) + "\n"
                for step in range(1, 1001)
                for split in ("train", "validation")
                if split == "train" or step % 500 == 0
            )
            + '{"step": 1001, "spl'
        )
        return {"steps": 1000, "loss": 0.01, "steps_per_second": 5.0}

    def evaluate(workdir, report):
        calls.append("evaluate")
        return {"bleu": 3.0, "perplexity": 50.0}

    def fake(name, **attributes):
        module = types.ModuleType(name)
        module.__dict__.update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    import attention_research.training as training

    monkeypatch.setattr(
        training, "environment", types.SimpleNamespace(describe=lambda: {"git": "0", "command": ["/x"]})
    )
    fake("attention_research.training.run", train=train)
    fake("attention_research.training.evaluation", evaluate=evaluate)
    inspection = fake(
        "attention_research.training.inspection", inspect=lambda config: {"parameters": 7, "flops": 8, "x": 9}
    )
    monkeypatch.setattr(training, "inspection", inspection, raising=False)
    monkeypatch.setattr("attention_research.config.resolve", lambda given: given)
    stages = [{"kind": kind, "settings": {}, "function": None, "address": kind * 2} for kind in ("train", "evaluate")]
    trial = {name: name for name in PLANNED} | {"given": {"a": 1}, "stages": stages, "count": True}
    write_json(tmp_path / "trial.json", trial)
    return types.SimpleNamespace(path=tmp_path, calls=calls, training=sys.modules["attention_research.training.run"])


def test_stages_run_in_turn_and_make_a_result(folder):
    result = worker.run_trial(folder.path, Attempt(folder.path, 1))
    assert folder.calls == ["train", "evaluate"]
    assert json.loads((folder.path / "result.json").read_text()) == result
    assert result["stages"]["train"]["loss"] == 0.01 and result["stages"]["evaluate"]["bleu"] == 3.0
    assert result["stages"]["inspect"] == {"parameters": 7, "flops": 8}
    assert result["stages"]["train"]["peak_memory_bytes"] > 10**7
    assert result["program"] == {"sources": "of a test", "train": "one"} and len(result["fingerprint"]) == 12
    assert result["environment"] == {"git": "0"} and result["given"] == {"a": 1} and result["diverged"] is None
    steps = [step for step, _ in result["curves"]["train"]]
    assert len(steps) <= 201 and steps[0] == 1 and steps[-1] == 1000
    assert result["curves"]["validation"] == [[500, 0.02], [1000, 0.01]]


def test_a_finished_stage_is_not_run_again(folder):
    write_json(folder.path / "stages" / "traintrain.json", {"loss": 1.5, "peak_memory_bytes": 5})
    result = worker.run_trial(folder.path, Attempt(folder.path, 1))
    assert folder.calls == ["evaluate"] and result["stages"]["train"]["loss"] == 1.5


def test_a_nan_loss_is_a_result(folder):
    def diverges(config, workdir, report):
        raise Diverged("step 7, seed 0: the loss is 2.5, the gradient of table is not finite")

    folder.training.train = diverges
    assert worker.work(folder.path) == 0
    result = json.loads((folder.path / "result.json").read_text())
    assert result["diverged"].startswith("step 7") and list(result["stages"]) == ["inspect"] and folder.calls == []


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (RunError("no room left on the disk"), 1, "no room left on the disk"),
        (ConfigError("config.x: no such setting"), 2, "config.x: no such setting"),
        (KeyError("missing\nline"), 1, "KeyError: 'missing\\nline'"),
    ],
)
def test_a_failure_is_one_line_and_an_exit_status(folder, error, status, line, capfd):
    def fails(config, workdir, report):
        raise error

    folder.training.train = fails
    assert worker.work(folder.path) == status
    assert (folder.path / "error.txt").read_text() == line + "\n"
    assert not (folder.path / "result.json").exists()
    assert capfd.readouterr().err.splitlines()[-1] == f"error: {line}"


def test_a_backend_that_is_not_there_is_a_wrong_setting(folder, monkeypatch):
    def missing(*words):
        raise AssertionError

    folder.training.train = missing
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setattr(jax, "devices", missing)
    assert worker.work(folder.path) == 2
    assert (folder.path / "error.txt").read_text().startswith("JAX_PLATFORMS=cuda: JAX has no such device here; ")


@pytest.mark.parametrize(
    ("rerun", "begun", "now", "stays"),
    [(0, 1, "B", True), (1, 1, "B", False), (1, 1, "A", True), (1, 0, "B", False)],
    ids=["marked", "dropped", "the-same-program", "nothing-begun"],
)
def test_work_begun_by_another_program_is_marked_or_dropped(tmp_path, monkeypatch, rerun, begun, now, stays):
    """With an unchanged program the work continues, even if other sources have changed."""
    folder, planned = Folder(tmp_path), dataclasses.replace(trial("a"), fingerprint="old")
    place, before = folder.prepare(planned, rerun_stale=False), {"sources": "old", "train": "A"}
    write_json(place / "program.json", before)
    if begun:
        write_json(place / "stages" / "x.json", {})
    changed = lambda trial, result: Stale() if result["program"]["train"] != now else Current()
    monkeypatch.setattr(trial_folders, "state_of", changed)
    assert folder.prepare(dataclasses.replace(planned, fingerprint="new"), rerun_stale=bool(rerun)) == place
    assert (read_program(place) == before, (place / "stages").exists()) == (stays, stays)


def test_work_begun_by_an_earlier_version_is_not_taken_for_this_ones(tmp_path):
    folder, planned = Folder(tmp_path), dataclasses.replace(trial("a"), fingerprint="old")
    write_json(folder.prepare(planned, rerun_stale=False) / "stages" / "x.json", {})
    place = folder.prepare(dataclasses.replace(planned, fingerprint="new"), rerun_stale=True)
    assert read_program(place) == worker.begin(place, planned.to_json()) == {"sources": "old"}


def test_trials_get_whole_cores():
    cores = [2, 3, 5, 7, 11]
    assert shares(cores, 2) == [[2, 3, 5], [7, 11]]
    assert shares(cores, 5) == [[2], [3], [5], [7], [11]]
    assert shares(cores, 1) == [cores]


def test_measurements_of_a_trained_row_know_its_folder_and_are_read_as_one(tmp_path, monkeypatch):
    seen = []

    def measured(*, name, workdir, seed):
        seen.append(workdir)
        return {name: seed}

    monkeypatch.setattr(worker, "dereference", lambda where: measured)
    stages = [{"kind": "measure", "settings": {"name": n, "seed": 3}, "function": "x", "address": n} for n in "ab"]
    results = {}
    for stage in stages:
        worker._add(results, stage, worker._measure(stage, {"model": {}}, tmp_path))
    assert results == {"measure": {"a": 3, "b": 3}} and seen == [tmp_path, tmp_path]
