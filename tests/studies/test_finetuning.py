"""The stage `finetune`: addresses, the work of a worker, separate failures, and a real study of two rows."""

import dataclasses
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from attention_research.config import ConfigError, resolve
from attention_research.errors import Diverged, RunError
from attention_research.studies import (
    Row,
    Scale,
    Study,
    evaluate,
    finetune,
    finetuning,
    measure,
    run_study,
    train,
    train_on,
    worker,
)
from attention_research.studies.columns import Column, fixed
from attention_research.studies.groups import grouped
from attention_research.studies.progress import Progress
from attention_research.studies.results import collect
from attention_research.studies.tables import table
from attention_research.studies.trial_folders import Folder, write_json
from attention_research.studies.trials import plan
from tests.tiers import slow_are

CONFIG = "configs/translation/transformer.py:smoke"
FILES = {split: (f"{split}.a", f"{split}.b") for split in ("train", "validation", "test")}
DATA = {"kind": "files", **FILES, "batching": {"boundaries": (7,)}}
TOPICS = {"data": {**DATA, "train_examples": 11}, "training.steps": 3}


def where(*, workdir, **_):
    """A measurement of the folder that it gets."""
    return {"name": Path(*workdir.parts[-2:]).as_posix()}


COLUMNS = (Column("evaluate.perplexity", "perplexity", fixed(1)), Column("topics.perplexity", "topics", fixed(1)))


def study_of(*stages, rows=2, replicas=False, **overrides):
    """A study with rows of two widths."""
    overrides = {"data": DATA, **overrides, "data.tokenizer": "words"}
    scale = Scale(CONFIG, overrides, seeds=1, replicas=replicas)
    both = tuple(Row(f"width-{width}", f"width {width}", {"model.width": width}) for width in (8, 12)[:rows])
    return Study(both, {"smoke": scale, "cpu": scale}, stages=(train, evaluate, *stages), columns=COLUMNS, name="tuned")


def planned(*stages, scale="smoke", seeds=1, **settings):
    study = study_of(*stages, **settings)
    return plan(study, scale, list(study.rows), seeds, "0" * 12)


def test_a_fine_tuning_is_planned_with_its_trials_settings_and_vocabulary():
    trial = planned(finetune("topics", TOPICS, checkpoint="best", at={"cpu": {"training.steps": 5}}))[1]
    stage = trial.stages[-1]
    tuned, own = resolve(stage["settings"]["given"]).resolved, resolve(trial.given).resolved
    assert (stage["kind"], stage["settings"]["checkpoint"], stage["settings"]["steps"]) == ("finetune", "best", 3)
    assert tuned["training"]["initial"] == "{trial}"
    assert (tuned["data"]["tokenizer"]["kind"], tuned["data"]["tokenizer"]["run"]) == ("from_run", "{trial}")
    assert tuned["model"] == own["model"] and tuned["model"]["width"] == 12
    assert tuned["data"]["train_examples"] == 11 and own["data"]["train_examples"] is None
    larger = planned(finetune("topics", TOPICS, at={"cpu": {"training.steps": 5}}), scale="cpu")[0]
    assert larger.stages[-1]["settings"]["steps"] == 5


def test_a_second_task_has_the_rows_settings_and_fresh_parameters():
    trial = planned(train_on("strings", {**TOPICS, "vocabulary_size": 23}, at={"smoke": {"training.steps": 4}}))[1]
    stage = trial.stages[-1]
    tuned, own = resolve(stage["settings"]["given"]).resolved, resolve(trial.given).resolved
    assert (stage["kind"], stage["settings"]["from_stage"], stage["settings"]["steps"]) == ("finetune", None, 4)
    assert tuned["training"]["initial"] is None and "{trial}" not in json.dumps(stage["settings"])
    assert tuned["data"]["tokenizer"]["kind"] != own["data"]["tokenizer"]["kind"] == "words"
    assert stage["settings"]["given"]["model"] == trial.given["model"] and tuned["model"]["width"] == 12
    assert tuned["vocabulary_size"] == 23 != own["vocabulary_size"]
    assert planned(train_on("strings", TOPICS))[1].stages[-1]["address"] != planned(finetune("strings", TOPICS))[1].id


def test_an_address_depends_on_settings_and_the_previous_stage():
    stages = lambda *tunings, **settings: [stage["address"] for stage in planned(*tunings, **settings)[0].stages]
    topics = stages(finetune("topics", TOPICS))
    assert stages(finetune("topics", {**TOPICS, "training.steps": "3"})) == topics  # written differently
    assert stages(finetune("topics", {**TOPICS, "training.log_every": 2})) == topics  # affects logging only
    longer = stages(finetune("topics", {**TOPICS, "training.steps": 4}))
    assert longer[:2] == topics[:2] == stages() and longer[2] != topics[2]
    assert stages(finetune("topics", TOPICS), **{"training.steps": 9})[2] != topics[2]
    again = planned(finetune("topics", TOPICS), finetune("more", TOPICS, from_stage="topics"))[0].stages
    assert again[3]["settings"]["given"]["training"]["initial"] == f"{{trial}}/finetune/topics-{topics[2]}"


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (lambda: finetune("train", {}), "finetune 'train': a name is a slug of a-z, .* none of train, evaluate"),
        (lambda: finetune("Two words", {}), "finetune 'Two words': a name is a slug"),
        (lambda: finetune("b", {}, checkpoint="bset"), "finetune 'b': checkpoint='bset': expected last, best or a ste"),
        (lambda: finetune("b", {}, from_stage="a"), "fine-tuning b starts from 'a'; before it there is train"),
        (lambda: finetune("b", {"training.stepz": 3}), r"stepz: .*\(fine-tuning b\) \(row width-8\)"),
    ],
    ids=["taken", "no-slug", "no-checkpoint", "no-source", "no-setting"],
)
def test_an_invalid_fine_tuning_is_one_line(made, line):
    with pytest.raises(ConfigError, match=line):
        planned(made())


def test_a_measurement_of_a_fine_tuning_gets_its_folder():
    stages = planned(finetune("topics", TOPICS), measure(where), measure(where, of="topics"))[0].stages
    assert "folder" not in stages[3] and stages[4]["folder"] == finetuning.inside(stages[2])
    with pytest.raises(
        ConfigError, match=r"^measure: expected of= to name an earlier fine-tuning \(a\), not 'b' \(row"
    ):
        planned(finetune("a", TOPICS), measure(where, of="b"), finetune("b", TOPICS))


def test_names_must_be_unique():
    with pytest.raises(ConfigError, match="^fine-tuning a is there twice"):
        planned(finetune("a", {}), finetune("a", {}))


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """A planned trial with two fine-tunings. Training and evaluation are fakes, and `fails` names failing ones."""
    (first, _) = planned(finetune("topics", TOPICS), finetune("titles", TOPICS))
    folder = Folder(tmp_path)
    place = folder.prepare(dataclasses.replace(first, count=False), rerun_stale=False)
    calls, fails = [], {}

    def run(stage, place, report):
        name = stage["settings"]["name"]
        calls.append(name)
        if name in fails:
            raise fails[name]
        return {"perplexity": 7.0, "train_loss": 1.5}

    monkeypatch.setattr(finetuning, "run", run)
    monkeypatch.setattr(worker.Attempt, "begin", lambda place: worker.Attempt(place, 1))  # never superseded
    said = {"train": {"loss": 2.0}, "evaluate": {"perplexity": 30.0}}
    for kind, outcome in said.items():
        monkeypatch.setitem(worker.STAGES, kind, lambda *_, kind=kind, outcome=outcome: calls.append(kind) or outcome)
    return types.SimpleNamespace(trial=first, folder=folder, place=place, calls=calls, fails=fails)


def rows(trial):
    """The table's only row."""
    study = study_of(finetune("topics", TOPICS), finetune("titles", TOPICS), rows=1)
    found = collect(study, "smoke", [trial.trial], trial.folder)
    return dict(zip(*table(found)[:2], strict=True))


def test_results_are_columns_under_their_names(trial):
    assert worker.work(trial.place) == 0
    assert trial.calls == ["train", "evaluate", "topics", "titles"]
    found = json.loads((trial.place / "result.json").read_text())
    assert found["stages"]["topics"]["perplexity"] == 7.0 and found["stages"]["titles"]["train_loss"] == 1.5
    assert "failed" not in found and rows(trial) == {
        "row": "width 8",
        "perplexity": "30.0",
        "topics": "7.0",
        "seeds": "1",
    }
    assert worker.work(trial.place) == 0 and len(trial.calls) == 4


def test_a_failed_fine_tuning_keeps_the_others_and_is_run_again(trial, capfd):
    trial.fails["topics"] = RunError("no room left")
    assert worker.work(trial.place) == 1
    assert trial.calls == ["train", "evaluate", "topics", "titles"]
    found = json.loads((trial.place / "result.json").read_text())
    assert found["failed"] == {"topics": "no room left"} and found["stages"]["titles"]["perplexity"] == 7.0
    assert (trial.place / "error.txt").read_text() == "fine-tuning topics: no room left\n"
    shown = rows(trial)
    assert (shown["perplexity"], shown["topics"]) == ("30.0", "")
    assert "fine-tuning topics failed: no room left" in shown["notes"]
    trial.fails.clear()
    assert worker.work(trial.place) == 0 and trial.calls[4:] == ["topics"]
    assert rows(trial)["topics"] == "7.0" and "notes" not in rows(trial)


def test_a_diverged_fine_tuning_is_a_result(trial):
    trial.fails["topics"] = Diverged("step 2, seed 0: the loss is nan")
    assert worker.work(trial.place) == 0 and trial.calls[-1] == "titles"
    found = json.loads((trial.place / "result.json").read_text())
    assert found["diverged"] is None and found["stages"]["titles"]["perplexity"] == 7.0
    assert "topics diverged (step 2, seed 0: the loss is nan)" in rows(trial)["notes"]


@pytest.mark.parametrize("failure", [RunError("no room left"), Diverged("the loss is nan")], ids=["failed", "diverged"])
def test_only_a_finished_fine_tuning_is_measured(trial, failure):
    stages = planned(finetune("topics", TOPICS), measure(where, of="topics"))[0].stages
    write_json(trial.place / "trial.json", {**trial.trial.to_json(), "stages": stages})
    trial.fails["topics"] = failure
    worker.work(trial.place)
    outcomes = lambda: json.loads((trial.place / "result.json").read_text())["stages"]
    assert "measure" not in outcomes() and "topics" in trial.calls
    if "diverged" in outcomes().get("topics", {}):
        return
    trial.fails.clear()
    assert worker.work(trial.place) == 0
    assert outcomes()["measure"]["name"] == finetuning.inside(stages[2])


def test_progress_says_which_fine_tuning_and_its_own_steps(trial, monkeypatch):
    stage = trial.trial.stages[2]
    progress = Progress([trial.trial], trial.folder, set(), out=open(os.devnull, "w"))
    shown = progress.states[trial.place]
    line = lambda step: json.dumps({"step": step, "split": "train", "loss": 2.5, "tokens_per_second": 9.0}) + "\n"
    (trial.place / "metrics.jsonl").write_text(line(600))
    inside = trial.place / finetuning.inside(stage)
    inside.mkdir(parents=True)
    (inside / "metrics.jsonl").write_text(line(2))
    write_json(trial.place / "progress.json", worker._begun(stage))
    progress.report(trial.place, "running", "")
    assert shown.cells()[2:4] == ["fine-tuning topics", "2/3"]
    progress.report(trial.place, "done", "")
    assert shown.cells()[2] == "done" and shown.step == 600


def test_members_of_a_group_are_fine_tuned_one_by_one():
    trials = planned(finetune("topics", TOPICS), rows=1, seeds=3, replicas=True)
    (group,) = grouped(trials, Folder(Path("nowhere")))
    assert [stage["kind"] for stage in group.trial.stages] == ["train", "split"] and len(group.members) == 3
    assert {stage["kind"] for member in group.members for stage in member.stages[1:]} == {"evaluate", "finetune"}
    seeds = [resolve(member.stages[-1]["settings"]["given"]).resolved["training"]["seed"] for member in group.members]
    assert sorted(seeds) == [0, 1, 2]


def corpus(folder, letters):
    """Lines of words of these letters, and the same words reversed."""
    rng, paths = np.random.default_rng([ord(letter) for letter in letters]), {}
    for split, size in {"train": 40, "validation": 6, "test": 6}.items():
        lines = [[*rng.choice(list(letters), rng.integers(2, 6))] for _ in range(size)]
        paths[split] = tuple(str(folder / f"{split}.{letters}.{side}") for side in "ab")
        for path, order in zip(paths[split], (1, -1), strict=True):
            Path(path).write_text("".join(f"{' '.join(line[::order])}\n" for line in lines))
    return {**DATA, **paths}


SMALL = {
    "max_length": 7, "vocabulary_size": 13, "model.num_heads": 2, "model.num_layers": 1,
    "model.feed_forward.hidden_width": 11, "training.steps": 4, "training.batch_size": 4, "training.log_every": 1,
    "training.checkpoint_every": 2, "training.eval_every": 4, "evaluation.examples": 5, "evaluation.average": 1,
    "decoding": {"kind": "greedy", "extra_length": 1},
}  # fmt: skip


@pytest.mark.parametrize("replicas", slow_are(["alone"], {"alone": False, "together": True}))
def test_a_study_trains_fine_tunes_and_evaluates_once(tmp_path, monkeypatch, capfd, in_process, replicas):
    """Two rows with one seed, or one row with two seeds in one program; killed during the first fine-tuning."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    second = {"data": corpus(tmp_path, "bcdefg"), "training.steps": 3, "training.checkpoint_every": 1}
    overrides = {**SMALL, "data": corpus(tmp_path, "abcdef")}
    study = study_of(finetune("topics", second), rows=1 if replicas else 2, replicas=replicas, **overrides)
    options = {"scale": "smoke", "workdir": tmp_path / "study", "seeds": 2 if replicas else 1}
    summary = run_study(study, **options)
    said = capfd.readouterr().err
    assert summary["failed"] == [] and summary["finished"] == 2 and ("2 together" in said) is replicas
    for place in (tmp_path / "study" / "trials").iterdir():
        found = json.loads((place / "result.json").read_text())["stages"]
        assert found["evaluate"]["perplexity"] > 1 and found["topics"]["perplexity"] > 1
        assert found["train"]["steps"] == 4 and found["topics"]["train_steps"] == 3
        (inside,) = (place / "finetune").iterdir()
        (taken,) = json.loads((inside / "environment.json").read_text())["initial"]
        assert taken["run"] == str(place) and taken["step"] == 4
        both = [json.loads((folder / "environment.json").read_text())["vocabulary"] for folder in (place, inside)]
        assert both[0] == both[1]
    cells = [row["cells"]["topics.perplexity"]["values"] for row in summary["rows"]]
    assert [len(values) for values in cells] == ([2] if replicas else [1, 1])
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "study" / "trials").rglob("*"))
    assert run_study(study, **options)["rows"] == summary["rows"]
    assert "2 trials, 2 already done" in capfd.readouterr().err
    assert before == sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "study" / "trials").rglob("*"))


#: Four steps of training and three of fine-tuning.
DIES = """
import os, sys
from pathlib import Path
from attention_research.studies import worker
from attention_research.training.clock import Clock

fetch, steps = Clock.next, []

def fetching(self, *arguments):
    steps.append(1)
    if len(steps) == 4 + 3:
        os.kill(os.getpid(), 9)
    return fetch(self, *arguments)

Clock.next = fetching
worker.work(Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_an_interrupted_fine_tuning_goes_on(tmp_path, monkeypatch):
    """A worker is killed in the third step of the fine-tuning. The next one continues from the second step."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    second = {"data": corpus(tmp_path, "bcdefg"), "training.steps": 4, "training.checkpoint_every": 1}
    overrides = {**SMALL, "data": corpus(tmp_path, "abcdef")}
    (trial,) = planned(finetune("topics", second), rows=1, **overrides)
    place = Folder(tmp_path).prepare(trial, rerun_stale=False)
    assert subprocess.run([sys.executable, "-c", DIES, str(place)], capture_output=True).returncode == -9
    (inside,) = (place / "finetune").iterdir()
    saved = {path.name for path in (inside / "checkpoints").iterdir()}
    assert saved & {"1", "2"} and not (place / "result.json").exists()
    done = subprocess.run(
        [sys.executable, "-m", "attention_research", "attempt", str(place)], capture_output=True, text=True
    )
    assert done.returncode == 0 and "continuing from step" in done.stdout, done.stderr
    assert json.loads((place / "result.json").read_text())["stages"]["topics"]["train_steps"] == 4
