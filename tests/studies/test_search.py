"""Searches: their candidates, resuming, and trials stopped by halving; mostly with simulated trials."""

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attention_research.config import ConfigError, load
from attention_research.errors import RunError
from attention_research.studies import candidates, figures, search
from attention_research.studies.attempts import STOP
from attention_research.studies.axes import Choices, Range, parse_axis, read_axes
from attention_research.studies.draws import Draws
from attention_research.studies.halving import Lines
from attention_research.studies.objectives import check_split, read_objective
from attention_research.studies.runners.loop import run as run_trials
from attention_research.studies.runners.supervision import Ending
from attention_research.studies.sweep import sweep_study
from attention_research.training.workdir import json_text

CONFIG = "configs/translation/transformer.py:smoke"
RATE = "training.learning_rate"
VALIDATED = (("evaluation.split", "validation"),)
EIGHT_STEPS = (("training.steps", "8"), ("training.eval_every", "1"))
loop = sys.modules[run_trials.__module__]


class Executor:
    """Runs trials in this process, with one evaluation at each poll.

    `loss(given, step)` returns the loss. `ends(number, given)` may end the n-th started trial by an `Ending` or by
    raising.
    """

    def __init__(self, loss, ends=lambda number, given: None, jobs=1):
        self.loss, self.ends, self.jobs = loss, ends, jobs
        self.started: list[dict] = []

    def open(self, workdir: Path) -> None:
        pass

    def close(self) -> None:
        pass

    def start(self, folder: Path):
        given = json.loads((folder / "trial.json").read_text())["given"]
        self.started.append(given)
        return Made(self, folder, given, len(self.started))


class Made:
    def __init__(self, executor: Executor, folder: Path, given: dict, number: int):
        self.executor, self.folder, self.given, self.number, self.step = executor, folder, given, number, 0

    def begun(self) -> bool:
        return True

    def ending(self) -> Ending | None:
        ended = self.executor.ends(self.number, self.given)
        if ended is not None:
            return ended
        stop, training = self.folder / STOP, self.given["training"]
        stopped = {"stopped": json.loads(stop.read_text())["reason"]} if stop.exists() else {}
        if not stopped:
            self.step += training.get("eval_every", training["steps"])
            with open(self.folder / "metrics.jsonl", "a") as file:
                line = {"step": self.step, "split": "validation", "loss": self.executor.loss(self.given, self.step)}
                file.write(json_text(line) + "\n")
            if self.step < training["steps"]:
                return None
        loss = self.executor.loss(self.given, self.step)
        curves = {"validation": [[self.step, loss]]}
        stages = {} if stopped else {"train": {"loss": loss}, "evaluate": {"bleu": 50 - loss}}
        trial = json.loads((self.folder / "trial.json").read_text())
        diverged = "the loss is nan" if math.isnan(loss) and not stopped else None
        result = {**stopped, "stages": stages, "diverged": diverged, "curves": curves, "cores": 1, "seconds": 1.0}
        result |= {"fingerprint": trial["fingerprint"], "environment": {}, "config_hash": trial["config_hash"]}
        (self.folder / "result.json").write_text(json.dumps(result))
        return Ending("done")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(executor, over, kind, ...) -> the summary of a search without data, pictures or waiting."""
    monkeypatch.setattr(candidates, "prepare_data", lambda trials, seen: None)
    monkeypatch.setattr(candidates, "fingerprint", lambda: "sources")
    monkeypatch.setattr(candidates, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(figures, "draw", lambda found, folder: [])
    monkeypatch.setattr(loop, "_POLL_SECONDS", 0.0)

    def start(executor, over, kind=None, *, config=CONFIG, workdir=tmp_path / "run", **options):
        monkeypatch.setattr(search, "find_executor", lambda runner, **settings: executor)
        status = search.search(config, over, kind, workdir=workdir, **options)
        assert status == 0
        return json.loads((workdir / "summary.json").read_text())

    return start


def rate(given, step=0):
    """A loss that equals the trial's learning rate."""
    return float(given["training"]["learning_rate"])


def rates(executor):
    return [rate(given) for given in executor.started]


def journal(workdir):
    """The states of Optuna's trials, in the order of their numbers."""
    import optuna

    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(f"{workdir}/search.journal"))
    (name,) = optuna.get_all_study_names(storage)
    return [trial.state.name for trial in optuna.load_study(study_name=name, storage=storage).trials]


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("a.b=1,2", Choices(("1", "2"))),
        ("a.b=7", Choices(("7",))),
        ("a.b=1..6", Range(1, 6)),
        ("a.b=-3..+4", Range(-3, 4)),
        ("a.b=0..0.5", Range(0, 0.5)),
        ("a.b=1.0..6", Range(1.0, 6)),
        ("a.b=1e-4..1e-2:log", Range(1e-4, 1e-2, log=True)),
        ("a.b=2..64:log", Range(2, 64, log=True)),
        ("a.b=../corpus,x..y", Choices(("../corpus", "x..y"))),
    ],
)
def test_an_axis_is_a_list_or_a_range(text, axis):
    assert parse_axis(text) == ("a.b", axis)


def test_a_range_is_of_whole_numbers_if_both_ends_are_written_so():
    whole = {text: parse_axis(f"a={text}")[1].whole for text in ("1..6", "1.0..6", "1..6.0", "1e0..6", "-2..2")}
    assert whole == {"1..6": True, "1.0..6": False, "1..6.0": False, "1e0..6": False, "-2..2": True}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a=6..1", "--over a=6..1: 6 is not below 1"),
        ("a=1..1", "--over a=1..1: 1 is not below 1"),
        ("a=0..1:log", "--over a=0..1:log: 0 has no logarithm; a range with :log is above 0"),
        ("a=1..2:lgo", "--over a=1..2:lgo: expected LOW..HIGH or LOW..HIGH:log, two numbers"),
        ("a=1..", "--over a=1..: expected LOW..HIGH or LOW..HIGH:log, two numbers"),
        ("a=..2", "--over a=..2: expected LOW..HIGH or LOW..HIGH:log, two numbers"),
        ("a=1..inf", "--over a=1..inf: expected LOW..HIGH or LOW..HIGH:log, two numbers"),
        ("a=1..3,7", "--over a=1..3,7: a range such as 1..3 stands alone, without other values"),
    ],
)
def test_a_wrong_range_is_one_line(text, line):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        parse_axis(text)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"kind": None, "halving": 3}, "--over training.learning_rate=1..9: ranges need --search=random or tpe"),
        ({"kind": "tpe"}, "--search=tpe: needs --trials=N, how many are run in all"),
        ({"kind": "bayes", "trials": 3}, "--search=bayes: there are random and tpe"),
        ({"trials": 3, "halving": 1}, "--halving=1: expected a whole number of at least 2"),
        ({"trials": 3, "seeds": 3}, "--seeds=3: --search runs one seed a candidate; run the best again with sweep "
         "--seeds=3"),
        ({"trials": 3, "stale": "rerun"}, "--stale=rerun: a search goes on from its journal; give another --workdir"),
        ({"trials": 3, "objective": "bleu"}, "--objective=bleu: expected STAGE.NAME, such as evaluate.bleu"),
        ({"trials": 3, "objective": "best:evaluate.x"}, "--objective=best:evaluate.x: 'best' is neither min nor max"),
        ({"trials": 3, "overrides": (("training.replicas", "2"),)}, "config.training.replicas: 2; a search trains one "
         "run a candidate"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_one_line(run, tmp_path, options, line):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        run(Executor(rate), [f"{RATE}=1..9"], **{"kind": "random", **options})
    assert not (tmp_path / "run").exists()


def test_a_grid_takes_no_ranges_and_no_trials(run):
    with pytest.raises(ConfigError, match=r"^--over a=1\.\.3: ranges need --search=random or tpe$"):
        sweep_study(CONFIG, ["a=1..3"])
    with pytest.raises(ConfigError, match="^--trials=3: needs --search=random or tpe; without it all combinations"):
        run(Executor(rate), [f"{RATE}=1,2"], trials=3, halving=2)


def test_the_command_takes_them_and_says_what_is_missing(root):
    """In a fresh process, without importing JAX or Optuna."""
    code = (
        "import sys; from attention_research.cli import main\n"
        "for more in (['--over=training.learning_rate=1..2'], ['--over=training.learning_rate=2..1', '--search=tpe'],\n"
        "             ['--over=training.steps=1,2', '--trials=3'], ['--over=training.steps=1,2', '--search=tpe'],\n"
        "             ['--over=training.steps=1,2', '--objective=train.loss'], ['--help']):\n"
        f"    try: main(['sweep', '--config={CONFIG}', *more])\n"
        "    except SystemExit: pass\n"
        "print('imported', sorted(m for m in ('jax', 'flax', 'numpy', 'optuna') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stderr.splitlines() == [
        "error: --over training.learning_rate=1..2: ranges need --search=random or tpe",
        "error: --over training.learning_rate=2..1: 2 is not below 1",
        "error: --trials=3: needs --search=random or tpe",
        "error: --search=tpe: needs --trials=N, how many are run in all",
        "error: --objective=train.loss: needs --search=random or tpe or --halving",
    ]
    assert "among the best 1/ETA of the runs that have reached the same step" in " ".join(done.stdout.split())
    assert done.stdout.strip().endswith("imported []")


def test_optuna_missing_is_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    line = "--search: Optuna is missing; pip install 'attention_research[search]'"
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        run(Executor(rate), [f"{RATE}=1..9"], "random", trials=3)
    assert not (tmp_path / "run").exists()


def test_trials_follow_the_table_and_the_options(run, capsys):
    executor = Executor(rate)
    summary = run(executor, [f"{RATE}=1e-3..1e-1:log", "model.dropout_rate=0,0.1"], "random", trials=5)
    found = {row["id"]: row["cells"]["search.validation_loss"]["mean"] for row in summary["rows"]}
    assert list(found.values()) == sorted(rates(executor)) and len(found) == 5
    assert summary["best"]["value"] == min(rates(executor)) and summary["best"]["objective"] == "search.validation_loss"
    dropout = executor.started[rates(executor).index(min(rates(executor)))]["model"]["dropout_rate"]
    options = f"--config.{RATE}={min(rates(executor))!r} --config.model.dropout_rate={dropout:g}"
    assert summary["best"]["options"] == options
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == options and out[0].startswith("# sweep · sweep: Search of configs/translation/transformer.py")
    first = next(line for line in out if line.startswith("| learning_rate"))
    assert first.startswith(f"| learning_rate={min(rates(executor))!r}, dropout_rate={dropout:g}")


@pytest.mark.slow
def test_tpe_concentrates_on_good_regions(run, tmp_path):
    def bowl(given, step):
        return (given["model"]["dropout_rate"] - 0.3) ** 2

    executors = [Executor(bowl), Executor(bowl)]
    for number, executor in enumerate(executors):
        run(executor, ["model.dropout_rate=0..0.9"], "tpe", trials=30, workdir=tmp_path / str(number))
    drawn, again = [[given["model"]["dropout_rate"] for given in executor.started] for executor in executors]
    assert len(drawn) == 30 and again == drawn
    away = [abs(x - 0.3) for x in drawn]
    assert min(away) < 0.05 and sum(away[15:]) / 15 < 0.5 * sum(away[:10]) / 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "tpe"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_an_interrupted_search_loses_and_repeats_no_trial(run, tmp_path, kind, jobs):
    def at(count):
        def ends(number, given):
            if number == count:
                raise KeyboardInterrupt

        return ends

    over, options = [f"{RATE}=1e-3..1e-1:log", "model.dropout_rate=0,0.1"], {"trials": 14, "overrides": EIGHT_STEPS}
    whole = Executor(rate, jobs=jobs)
    run(whole, over, kind, workdir=tmp_path / "whole", **options)
    sittings = [Executor(rate, at(4), jobs=jobs), Executor(rate, at(9), jobs=jobs), Executor(rate, jobs=jobs)]
    for executor in sittings[:2]:
        with pytest.raises(RunError, match=f"^SIGINT: stopped; the same command continues from {tmp_path}/run$"):
            run(executor, over, kind, **options)
        assert "RUNNING" in journal(tmp_path / "run")
        with open(tmp_path / "run/search.journal", "a") as file:
            file.write('{"op_code": 4, "wor')  # cut off by the kill
    summary = run(sittings[-1], over, kind, **options)
    assert journal(tmp_path / "run") == ["COMPLETE"] * 14 and len(summary["rows"]) == summary["finished"] == 14
    started = [rates(executor) for executor in sittings]
    assert len({rate for some in started for rate in some}) == 14
    cut = min(jobs, 4)  # only trials that were interrupted run again, and they run first
    assert sum(map(len, started)) - 14 <= 2 * cut
    repeated = [one for one in started[1] if one in started[0]]
    assert repeated == started[1][: len(repeated)]
    if jobs == 1:
        assert list(dict.fromkeys(sum(started, []))) == rates(whole)
    none = Executor(rate)
    assert run(none, over, kind, **options) == summary and none.started == []
    more = Executor(rate)
    run(more, over, kind, **{**options, "trials": 16})
    assert len(more.started) == 2


def test_an_unreported_result_is_reported_and_not_run_again(run, tmp_path, monkeypatch):
    """The command is killed after a trial has ended and before the journal has its result."""

    def killed(*arguments):
        raise KeyboardInterrupt

    over = [f"{RATE}=1e-3..1e-1"]
    with monkeypatch.context() as context, pytest.raises(RunError):
        context.setattr(Draws, "finished", killed)
        run(Executor(rate), over, "random", trials=2)
    executor = Executor(rate)
    assert run(executor, over, "random", trials=2)["finished"] == 2 and len(executor.started) == 1
    assert journal(tmp_path / "run") == ["COMPLETE"] * 2


def test_another_search_says_that_it_replaces_the_table(run, capsys):
    for over, options, more in (
        ("1..9", {}, 0),
        ("1..9", {}, 0),
        ("1..8", {}, 1),
        ("1..8", {"objective": "train.loss"}, 1),
    ):
        run(Executor(rate), [f"{RATE}={over}"], "random", trials=2, **options)
        replaced = re.findall(
            r"replaces the table.* of attention-research sweep .*=random; its", capsys.readouterr().err
        )
        assert len(replaced) == more


def test_an_edited_config_file_begins_another_search(run, root, tmp_path):
    """The trials of the edited file have another identity: the draws and losses of the old ones are not theirs."""
    written, file = (root / CONFIG.split(":")[0]).read_text(encoding="utf-8"), tmp_path / "mine.py"
    for width, started in ((32, 3), (32, 0), (64, 3)):
        file.write_text(written.replace("num_layers=1, width=32", f"num_layers=1, width={width}"), encoding="utf-8")
        executor = Executor(rate)
        summary = run(executor, [f"{RATE}=1e-3..1e-1"], "random", trials=3, config=f"{file}:smoke")
        assert len(executor.started) == started and len(summary["rows"]) == summary["finished"] == 3


def test_a_failed_trial_ends_nothing_and_the_next_sitting_runs_it_again(run, tmp_path):
    over, options = [f"{RATE}=1e-3..1e-1"], {"kind": "tpe", "trials": 6}
    executor = Executor(rate, lambda number, given: Ending("failed", "ValueError: broken") if number == 3 else None)
    with pytest.raises(RunError, match="^1 of 6 trials failed: ValueError: broken; the same command runs them again$"):
        run(executor, over, **options)
    assert len(executor.started) == 6 and journal(tmp_path / "run").count("FAIL") == 1
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["finished"] == 5 and summary["rows"][-1]["notes"] and not summary["rows"][0]["notes"]
    healed = Executor(rate)
    assert run(healed, over, **options)["finished"] == 6 and rates(healed) == [rates(executor)[2]]
    assert run(healed, over, **options)["finished"] == 6 and len(healed.started) == 1
    one_more = Executor(rate)  # the second run of a candidate does not count as a candidate
    assert run(one_more, over, **{**options, "trials": 7})["finished"] == 7 and len(one_more.started) == 1


def test_an_invalid_candidate_is_reported_once_and_is_not_a_trial(run, tmp_path, capsys):
    executor = Executor(lambda given, step: float(given["model"]["num_heads"]))
    summary = run(executor, ["model.num_heads=1..8", "model.dropout_rate=0..0.5"], "random", trials=8)
    assert {given["model"]["num_heads"] for given in executor.started} <= {1, 2, 4, 8} and len(executor.started) == 8
    said = [line for line in capsys.readouterr().err.splitlines() if "not run" in line]
    assert len(said) == journal(tmp_path / "run").count("FAIL") > 0
    assert all("do not divide the width" in line for line in said)
    assert len(summary["rows"]) == 8 and "num_heads=3" not in (tmp_path / "run/table.md").read_text()


def test_only_invalid_candidates_are_an_error(run, tmp_path):
    for _ in range(2):
        with pytest.raises(ConfigError, match="^the first 10 candidates are all invalid, the last: .*num_heads"):
            run(Executor(rate), ["model.num_heads=33..99"], "random", trials=8)
    with pytest.raises(ConfigError, match="^the first 2 candidates are all invalid, the last: .*num_heads=7"):
        run(Executor(rate), ["model.num_heads=5,7"], halving=2, workdir=tmp_path / "grid")


def test_the_same_candidate_twice_runs_once(run, tmp_path):
    executor = Executor(rate, jobs=3)
    summary = run(executor, [f"{RATE}=1,2"], "random", trials=12)
    assert sorted(rates(executor)) == [1, 2] and len(summary["rows"]) == 2
    assert journal(tmp_path / "run") == ["COMPLETE"] * 12


@pytest.mark.parametrize("objective", ["evaluate.bleu", "max:evaluate.bleu", "min:train.loss"])
def test_another_objective_sorts_the_table(run, objective):
    executor = Executor(lambda given, step: abs(rate(given) - 4))
    summary = run(executor, [f"{RATE}=1..9"], "tpe", trials=6, objective=objective, overrides=VALIDATED)
    assert abs(float(summary["best"]["options"].split("=")[1]) - 4) == min(abs(x - 4) for x in rates(executor))
    key = objective.split(":")[-1]
    values = [row["cells"][key]["mean"] for row in summary["rows"]]
    assert values == sorted(values, reverse="bleu" in key) and summary["best"]["value"] == values[0]


def test_an_objective_says_which_way_is_better():
    assert read_objective("evaluate.bleu").column.better == "higher"
    assert read_objective("max:evaluate.loudness").column.better == "higher"
    assert read_objective(None).column.title == "validation loss"
    with pytest.raises(ConfigError, match="^--objective=evaluate.loudness: say min:evaluate.loudness or max:eval"):
        read_objective("evaluate.loudness")
    diverged = {"stages": {}, "curves": {}, "diverged": "at step 3"}
    nan = {"stages": {"evaluate": {"bleu": float("nan")}}, "curves": {}, "diverged": None}
    for result in (diverged, nan):
        assert read_objective("evaluate.bleu").cost(result) == float("inf")


def test_an_objective_that_no_trial_has_is_one_line(run):
    with pytest.raises(ConfigError, match=r"^--objective: a trial has no number evaluate.blue; did you mean evalua"):
        run(Executor(rate), [f"{RATE}=1..9"], "random", trials=3, objective="max:evaluate.blue", overrides=VALIDATED)


def test_no_search_chooses_by_the_test_split(run, tmp_path):
    further = {"extra": {"kind": "bleu"}, "shown": {"kind": "bleu", "split": "validation"}}
    line = "--objective={}: no setting may be chosen by the test split; set config.{}.split=validation"
    for objective, key in (("evaluate.bleu", "evaluation"), ("max:evaluate.extra.bleu", "evaluations.extra")):
        expected = re.escape(line.format(objective.removeprefix("max:"), key))
        with pytest.raises(ConfigError, match=f"^{expected}$"):
            run(Executor(rate), [f"{RATE}=1..9"], "random", trials=3, objective=objective,
                overrides=(("evaluations", further),))  # fmt: skip
    assert not (tmp_path / "run").exists()
    config = load(CONFIG, [("evaluations", further)])
    for fine in (None, "train.loss", "max:evaluate.shown.bleu"):
        check_split(read_objective(fine and f"max:{fine.removeprefix('max:')}"), config)
    assert config.resolved["evaluation"]["split"] == "test"


#: Learning rate, which equals the loss at all steps -> the step at which the trial is stopped (None: never). By hand
#: with eta 2 and rungs at 1, 2 and 4, one trial after another. Of n losses at a rung floor(n / 2) continue, but always
#: the best so far.
ASHA = {
    5.0: None,  # the only one at each rung
    4.0: None,  # the best of two at each rung
    6.0: 1,  # 4 5 [6]: one of three goes on
    3.0: None,  # [3] 4 5 6: two of four; [3] 4 5: one of three
    4.5: 1,  # 3 4 [4.5] 5 6: two of five
    3.5: None,  # 3 [3.5] 4 4.5 5 6: three of six; 3 [3.5] 4 5: two of four
    3.9: 2,  # 3 3.5 [3.9] ..: three of seven; 3 3.5 [3.9] 4 5: two of five
    3.2: None,  # four of eight; 3 [3.2] ..: three of six; 3 [3.2] 3.5 4 5: two of five
}


@pytest.mark.parametrize("objective", [None, "evaluate.bleu"])
def test_halving_stops_trials_that_are_not_among_the_best(run, tmp_path, objective):
    executor = Executor(rate)
    over, options = [f"{RATE}={','.join(map(str, ASHA))}"], {"halving": 2, "overrides": EIGHT_STEPS + VALIDATED}
    summary = run(executor, over, objective=objective, **options)
    assert rates(executor) == list(ASHA)
    notes = {row["id"].removeprefix("learning_rate="): row["notes"] for row in summary["rows"]}
    steps = {
        float(name): int(note.split(":")[0].split()[-1]) if note.startswith("stopped early") else None
        for name, note in notes.items()
    }
    assert steps == ASHA
    # Stopped trials come last, the one that went furthest first.
    assert [*map(float, notes)] == [3.0, 3.2, 3.5, 4.0, 5.0, 3.9, 4.5, 6.0]
    table = (tmp_path / "run/table.md").read_text()
    assert "stopped early at step 1: validation loss 6.000, not among the best 1/2 there\n" in table
    states = ["PRUNED" if step else "COMPLETE" for step in ASHA.values()]
    assert journal(tmp_path / "run") == states
    again = Executor(rate)
    assert run(again, over, objective=objective, **options) == summary and again.started == []


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_halving_never_stops_the_best(run, jobs):
    executor = Executor(lambda given, step: rate(given) + 1 / step, jobs=jobs)
    steps = (("training.steps", "27"), ("training.eval_every", "1"))
    summary = run(executor, [f"{RATE}=0.1..9.9"], "random", trials=20, halving=3, overrides=steps, jobs=jobs)
    stopped = [row for row in summary["rows"] if row["notes"].startswith("stopped early")]
    assert len(executor.started) == 20 and 10 <= len(stopped) < 20
    assert float(summary["best"]["options"].split("=")[1]) == min(rates(executor))


def test_a_stop_is_not_forgotten_by_an_interrupt(run, tmp_path):
    """The driver is killed after the decision, before the trial has been told."""
    over, options = [f"{RATE}=1,2"], {"halving": 2, "overrides": EIGHT_STEPS}

    def interrupted(number, given):
        if number == 2 and list((tmp_path / "run").glob(f"trials/*/{STOP}")):
            raise KeyboardInterrupt

    with pytest.raises(RunError):
        run(Executor(rate, interrupted), over, **options)
    assert journal(tmp_path / "run") == ["COMPLETE", "RUNNING"]
    executor = Executor(rate)
    summary = run(executor, over, **options)
    assert rates(executor) == [2] and journal(tmp_path / "run") == ["COMPLETE", "PRUNED"]
    assert summary["rows"][1]["notes"].startswith("stopped early at step 1: validation loss 2.000")


def test_a_nan_loss_is_the_worst(run, tmp_path):
    executor = Executor(lambda given, step: rate(given) if rate(given) > 4 else math.nan)
    summary = run(executor, [f"{RATE}=1..9"], "tpe", trials=16)
    assert float(summary["best"]["options"].split("=")[1]) == min(one for one in rates(executor) if one > 4)
    assert "diverged (the loss is nan)" in summary["rows"][-1]["notes"]
    summary = run(executor, [f"{RATE}=5,3,6"], halving=2, overrides=EIGHT_STEPS, workdir=tmp_path / "halving")
    assert summary["rows"][1]["notes"].startswith("stopped early at step 1: validation loss no number")


def test_metrics_are_read_once_and_anew_when_replaced(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = Lines(path)
    assert lines.validation() == []

    def line(step, split="validation"):
        return json.dumps({"step": step, "split": split, "loss": step / 10}) + "\n"

    path.write_text(line(1) + line(1, "train") + line(2)[:9])
    assert lines.validation() == [(1, 0.1)] and lines.validation() == []
    with open(path, "a") as file:
        file.write(line(2)[9:] + "torn {\n" + line(3))
    assert lines.validation() == [(2, 0.2), (3, 0.3)]
    (tmp_path / "new").write_text(line(1) + line(2))
    (tmp_path / "new").replace(path)
    assert lines.validation() == [(1, 0.1), (2, 0.2)]


def test_axes_are_given_once(root):
    with pytest.raises(ConfigError, match="^--over a: given twice$"):
        read_axes(["a=1..2", "a=3"])
    with pytest.raises(ConfigError, match="^--over a: is also set by --config.a$"):
        read_axes(["a=1..2"], (("a", "3"),))


@pytest.mark.slow
def test_real_trials_go_on_after_the_search_is_killed(root, tmp_path):
    """kill -9 of the command while its trials train. The same command then completes the search."""
    workdir = tmp_path / "run"
    command = [sys.executable, "-m", "attention_research", "sweep", "--config=configs/copying/recurrent.py:smoke"]
    command += [f"--over={RATE}=1e-4..1e-2:log", "--search=random", "--trials=2", "--jobs=2", f"--workdir={workdir}"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while len(list(workdir.glob("trials/*/progress.json"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert len(journal(workdir)) == 2 and "RUNNING" in journal(workdir)  # the first may have finished by then
    before = {path.name for path in workdir.glob("trials/*")}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 candidates, 2 already drawn" in done.stderr and journal(workdir) == ["COMPLETE"] * 2
    assert {path.parent.name for path in workdir.glob("trials/*/result.json")} == before
    assert done.stdout.splitlines()[-1].startswith(f"--config.{RATE}=0.00")
