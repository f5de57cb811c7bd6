"""`compare`: numbers from the logs, and the exact differences."""

import json

import pytest

from attention_research.cli import main
from attention_research.workdirs.comparison import compare
from attention_research.workdirs.figures import caption
from attention_research.workdirs.reading import Run


@pytest.fixture(scope="module")
def runs(make_run, evaluation, tmp_path_factory):
    """Two runs with different widths and versions of Flax. The second has two seeds and no score."""
    folder = tmp_path_factory.mktemp("runs")
    first = make_run(folder / "first", 6, evaluation=evaluation)
    other = {"versions": {"jax": "0.10.2", "flax": "0.12.9"}, "date": "2027-01-01", "git_revision": "456"}
    other |= {"from_step": 2, "earlier": [{"git_revision": "123"}]}
    wide = [("model.width", 64)]
    second = make_run(folder / "second", 4, seeds=(0, 1), overrides=wide, environment=other)
    (second / "result.json").write_text(json.dumps({"stages": {"inspect": {"parameters": 1_181_696}}}))
    return first, second


def test_numbers(runs):
    """Training losses are 9, 8, ... for seed 0 and two more for seed 1, averaged per step. Validation: 22, 20, 22."""
    numbers = compare(runs).numbers
    assert numbers["step"] == [6, 4]
    assert numbers["training_loss"] == [pytest.approx(6.5), pytest.approx(8.5)]
    assert numbers["validation_loss"] == [22.0, 21.0] and numbers["best_validation_loss"] == [20.0, 21.0]
    assert numbers["test_bleu"] == [12.5, None] and numbers["parameters"] == [None, 1_181_696]
    # 100 tokens a step. A token takes 1/200 s in one step, then 1/400 s: in four of six steps, in two of four.
    assert numbers["steps_per_second"] == [pytest.approx(5 / 1.5), pytest.approx(3.0)]


def test_differences_are_those_of_the_configs_and_environments(runs):
    found = compare(runs)
    assert found.config["model.width"] == [32, 64]
    assert all(a != b for a, b in found.config.values()) and not any(path.startswith("data.") for path in found.config)
    assert found.environment == {"git_revision": ["0123abc", "456"], "versions.flax": ["0.12.8", "0.12.9"]}
    assert found.scoring == {}  # one of them has no score


def test_different_signatures_are_reported(make_run, evaluation, tmp_path):
    other = {**evaluation, "signature": "nrefs:1|tok:none"}
    folders = [make_run(tmp_path / name, 6, evaluation=x) for name, x in (("a", evaluation), ("b", other))]
    found = compare([*folders, folders[0]])
    assert found.scoring == {"signature": ["nrefs:1|tok:13a", "nrefs:1|tok:none", "nrefs:1|tok:13a"]}
    assert found.config == found.environment == {}


def test_further_evaluations_are_numbers_too(make_run, evaluation, tmp_path):
    of = lambda bleu, split: {**evaluation, "evaluations": {"news": {"bleu": bleu, "signature": "x", "split": split}}}
    scored = ((3.25, "test"), (4, "validation"))
    found = compare([make_run(tmp_path / split, 6, evaluation=of(bleu, split)) for bleu, split in scored])
    assert found.numbers["news.bleu"] == [3.25, 4] and found.numbers["test_bleu"] == [12.5, 12.5]
    assert found.scoring == {"news.split": ["test", "validation"]}


def test_scores_of_different_checkpoints_are_told_apart(make_run, evaluation, tmp_path):
    """A continued run keeps the evaluation of an earlier step until it is evaluated again."""
    of = lambda step, chosen, averaged: {**evaluation, "step": step, "checkpoint": chosen, "averaged": averaged}
    chosen = {"last": of(6, "last", [6]), "old": of(4, "last", [4]), "mean": of(6, "mean", [4, 6])}
    folders = {name: make_run(tmp_path / name, 6, evaluation=one) for name, one in chosen.items()}
    found = compare([folders["last"], folders["old"]])
    assert found.numbers["step"] == [6, 6] and found.numbers["evaluated_step"] == [None, 4]
    assert found.scoring == {"step": [6, 4]}
    found = compare([folders["last"], folders["mean"]])
    assert "evaluated_step" not in found.numbers
    assert found.scoring == {"checkpoint": ["last", "mean"], "averaged": ["(absent)", [4, 6]]}


def replicated(evaluation, *values):
    """An evaluation of replicas with these BLEU scores, on the test split and in the further evaluation "news"."""
    news = lambda x: {"news": {"bleu": x, "split": "train", "summary": f"BLEU {x}"}}
    of = lambda x: {"bleu": x, "summary": f"BLEU {x}", "evaluations": news(x + 1)}
    each = [{**of(x), "seed": 5 + i, "replica": i} for i, x in enumerate(values)]
    return {**{name: x for name, x in evaluation.items() if name != "perplexity"}, **of(values[0]), "replicas": each}


def test_scores_of_replicas_are_means_with_their_spread(make_run, evaluation, tmp_path, capsys, monkeypatch):
    """Of 10, 12 and 17, the mean is 13 and the sample variance (9 + 1 + 16) / 2 = 13."""
    folders = [make_run(tmp_path / "three", 6, evaluation=replicated(evaluation, 10.0, 12.0, 17.0)),
               make_run(tmp_path / "one", 6, evaluation=evaluation)]  # fmt: skip
    found = compare(folders)
    assert found.numbers["test_bleu"] == [13.0, 12.5] and found.numbers["news.bleu"] == [14.0, None]
    deviation = pytest.approx(13**0.5)
    assert found.spreads == {"test_bleu": [deviation, None], "news.bleu": [deviation, None]}
    monkeypatch.setenv("COLUMNS", "500")
    assert main(["compare", *map(str, folders)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "| test_bleu | 13.00 ± 3.6 | 12.50 |" in lines


def test_evaluate_prints_every_replica_and_the_mean(make_run, evaluation, tmp_path, capsys, monkeypatch):
    document = {**replicated(evaluation, 10.0, 12.0, 17.0), "checkpoint": "last", "averaged": [6]}
    monkeypatch.setattr("attention_research.training.evaluation.evaluate", lambda *_, **__: document)
    assert main(["evaluate", f"--workdir={make_run(tmp_path / 'run', 6)}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:6] == ["replica 1, seed 6", "  BLEU 12.0", "  news (train): BLEU 13.0"]
    assert lines[9:12] == [
        "mean ± sample standard deviation over 3 replicas", "  test_bleu 13.00 ± 3.6", "  news.bleu 14.00 ± 3.6",
    ]  # fmt: skip


DAMAGED = {
    "no JSON": "{",
    "a list": "[1]",
    "no object of evaluations": '{"bleu": 1.0, "evaluations": ["news"]}',
    "no object of scores": '{"bleu": 1.0, "evaluations": {"news": 3.0}}',
    "no object of a replica": '{"bleu": 1.0, "replicas": [2]}',
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_evaluation_is_named_and_left_out(text, make_run, evaluation, tmp_path, capsys):
    folders = [make_run(tmp_path / name, 6, evaluation=evaluation) for name in ("a", "b")]
    (folders[0] / "evaluation.json").write_text(text)
    assert main(["compare", *map(str, folders), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == f"{folders[0]}/evaluation.json: damaged, so that its entries are missing here\n"
    assert json.loads(out)["numbers"]["test_bleu"] == [None, 12.5]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_tables_fit_the_terminal(width, make_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(tmp_path)
    names = ["with-a-long-name-of-a-run/one", "with-a-long-name-of-a-run/two", "with-a-long-name-of-a-run/three"]
    for name in names:
        python = {"python": f"3.{len(name)}.7"}
        make_run(tmp_path / name, 6, environment=python | {"platform": f"Linux of {name}, {'a long word ' * 12}"})
    assert main(["compare", *names]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width and lines[:3] == [f"{i}  {name}" for i, name in enumerate(names, 1)]
    assert any(line.startswith("| training_loss ") for line in lines)
    assert any(line.split()[:4] == ["|", "python", "|", "3.29.7"] for line in lines)
    place = lines.index("  platform")
    assert lines[place - 1] == "environment" and lines[place + 1].startswith(f"    1  Linux of {names[0]}")


def test_a_run_of_an_earlier_version_is_completed(make_run, tmp_path):
    """A setting that is newer than a run has its default, and is no difference to a run that has it."""
    folders = [make_run(tmp_path / name, 6) for name in ("old", "new")]
    saved = json.loads((folders[0] / "config.json").read_text())
    del saved["resolved"]["training"]["track"]
    (folders[0] / "config.json").write_text(json.dumps(saved))
    found = compare(folders)
    assert found.config == {} and found.hashes[0] == found.hashes[1]


def test_tables_and_json(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    assert main(["compare", *map(str, runs)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"| config | {runs[0]} | {runs[1]} |" in lines and "| model.width | 32 | 64 |" in lines
    assert "| test_bleu | 12.50 | |" in lines and "| parameters | | 1,181,696 |" in lines
    assert main(["compare", str(runs[0]), str(runs[0]), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["config"] == {} and document["numbers"]["test_bleu"] == [12.5, 12.5]
    assert main(["compare", str(runs[0]), str(runs[0])]) == 0
    assert f"the same config, {document['hashes'][0]}" in capsys.readouterr().out


MISTAKES = {
    "one run": (["compare", "{run}"], "name two runs or more"),
    "no run": (["compare", "{run}", "{run}s"], "no run there (no such folder)"),
    "no run in a folder": (["compare", "{run}", "{run}/checkpoints"], "config.json is missing"),
    "status of a missing folder": (["status", "{run}s"], "no such folder"),
    "report of a missing run": (["report", "{run}s"], "no run there"),
    "report": (["report"], "name the folder"),
    "export without a file": (["export", "--workdir={run}"], "expected the file to write"),
    "export of a missing run": (["export", "--workdir={run}s", "a.safetensors"], "no run there"),
    "override": (["compare", "{run}", "{run}", "--config.model.width=4"], "nothing can be overridden"),
    "unknown option": (["status", "--jsn"], "did you mean --json"),
}


@pytest.mark.parametrize("case", MISTAKES, ids=[name.replace(" ", "-") for name in MISTAKES])
def test_a_mistake_is_one_line_and_status_2(case, runs, capsys):
    words, expected = MISTAKES[case]
    assert main([word.replace("{run}", str(runs[0])) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and expected in err


def test_a_study_is_not_a_run(make_run, tmp_path, capsys):
    make_run(tmp_path / "study" / "trials" / "0abc", 6)
    assert main(["compare", str(tmp_path / "study"), str(tmp_path / "study")]) == 2
    assert "its runs are its trials, such as" in capsys.readouterr().err


KINDS_OF_TRIALS = {
    "floors": ("floors", "the trivial baselines (floors) of a study, not a run"),
    "a measurement": ("measure", "a measurement of a study, not a run"),
    "a trial that waits": ("train", "a trial that has not started"),
}


@pytest.mark.parametrize("words", [["report"], ["evaluate", "--workdir"]], ids=["report", "evaluate"])
@pytest.mark.parametrize(("kind", "expected"), KINDS_OF_TRIALS.values(), ids=KINDS_OF_TRIALS)
def test_a_folder_of_a_trial_without_a_run_is_called_what_it_is(kind, expected, words, tmp_path, capsys):
    (tmp_path / "trial.json").write_text(json.dumps({"row": "floors", "stages": [{"kind": kind, "settings": {}}]}))
    given = [words[0], f"{words[1]}={tmp_path}"] if words[1:] else [*words, str(tmp_path)]
    assert main(given) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and f"{tmp_path}: {expected}" in err and "train one first" not in err


def test_evaluate_names_the_trials_of_a_study(make_run, tmp_path, capsys):
    make_run(tmp_path / "study" / "trials" / "0abc", 6)
    assert main(["evaluate", f"--workdir={tmp_path}/study"]) == 2
    assert f"its runs are its trials, such as {tmp_path}/study/trials/0abc" in capsys.readouterr().err


def test_replicas_that_share_a_seed_have_a_curve_each(make_run, tmp_path):
    """Their losses are averaged, and the figures name replicas instead of seeds."""
    folder = make_run(tmp_path / "run", 6)
    lines = []
    for step in (2, 4):
        for replica, loss in enumerate((1.0, 2.0, 9.0)):
            line = {"step": step, "seed": 0, "replica": replica, "loss": loss}
            lines += [{**line, "split": "train"}, {**line, "split": "validation", "loss": loss + 10}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = Run.read(folder)
    assert run.curves("loss") == {0: {2: 1.0, 4: 1.0}, 1: {2: 2.0, 4: 2.0}, 2: {2: 9.0, 4: 9.0}}
    numbers = run.numbers()
    assert (numbers["training_loss"], numbers["validation_loss"], numbers["best_validation_loss"]) == (4.0, 14.0, 14.0)
    assert "replicas 0, 1, 2" in caption(run)
