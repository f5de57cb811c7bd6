"""Budgets: rates and lengths chosen by validation loss, with simulated trials in this process, and one real study."""

import dataclasses
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.cli import main
from attention_research.config import ConfigError, build, load
from attention_research.errors import RunError
from attention_research.studies import Budget, Row, Scale, Study, budgeting, figures, run
from attention_research.studies.budget import (
    EVALUATIONS,
    Tried,
    check,
    factors,
    families_at,
    goes_on,
    length,
    on_the_edge,
    stretched,
    winner,
)
from attention_research.studies.budget_page import page
from attention_research.studies.columns import LOSS
from attention_research.studies.runners.loop import run as run_trials
from attention_research.studies.runners.supervision import Ending
from attention_research.studies.study import evaluate, train
from tests.tiers import fast_are

CONFIG = "configs/translation/transformer.py:smoke"
loop = sys.modules[run_trials.__module__]
BASE = Budget("base", gain=0.01, doublings=4)


def tried(factor, loss):
    return Tried(factor, 0.1 * factor, round(100 * factor), loss, None if loss == math.inf else 1)


def lengths(*losses):
    return [tried(factor, loss) for factor, loss in zip(factors(BASE), losses, strict=False)]


RATES = {
    "the lowest": ((3.0, 2.0, 2.5), 1.0),
    "a diverged rate is not chosen": ((3.0, 3.5, math.inf), 0.5),
    "the nearest of equal rates": ((2.0, 3.0, 2.0), 0.5),
    "the scale's own of equal rates": ((2.0, 2.0, 2.0), 1.0),
    "none": ((math.inf,) * 3, None),
}


@pytest.mark.parametrize("case", RATES)
def test_the_rate_with_the_lowest_loss_is_chosen(case):
    losses, factor = RATES[case]
    best = winner([tried(factor, loss) for factor, loss in zip((0.5, 1.0, 2.0), losses, strict=True)])
    assert (best and best.factor) == factor
    assert on_the_edge(best, (0.5, 1.0, 2.0)) == (factor in (0.5, 2.0))


#: Losses at 50, 100, 200, ... steps: the chosen steps, whether that is final, whether to go on, and the message.
LENGTHS = {
    "two that helped, then none": ((4.0, 3.0, 2.9, 2.89), 200, True, False, "400 steps lower .* by 0.3%, less than 1%"),
    "exactly the share helps": ((4.0, 3.96, 3.95), 100, True, False, "by 0.3%"),
    "still falling": ((4.0, 3.0, 2.0), 200, False, True, "200 steps lower .* by 33.3%: the loss is still falling"),
    "still falling at the end": ((5.0, 4.0, 3.0, 2.0, 1.0), 800, False, False, "give more doublings"),
    "the shortest is enough": ((4.0, 3.99, 3.98), 50, False, False, "no length .* by 1%: fewer than 50 steps"),
    "a step between that does not help": ((4.0, 4.1, 3.5), 200, False, True, "by 12.5%"),
    "worse than the lowest does not help": ((4.0, 3.5, 3.6), 100, True, False, "by -2.9%, less than 1%"),
    "a longer one diverged": ((4.0, 3.0, math.inf), 100, True, False, "training for 200 steps diverged"),
    "the shorter one diverged": ((math.inf, 3.0, 3.0), 100, True, False, "by 0.0%"),
    "all diverged": ((math.inf, math.inf), None, False, False, "base diverged at every length"),
    "one alone": ((4.0,), 50, False, False, "says nothing"),
}


@pytest.mark.parametrize("case", LENGTHS)
def test_the_last_length_that_helped_is_chosen(case):
    losses, steps, final, more, said = LENGTHS[case]
    found = length(BASE, lengths(*losses))
    assert (found.chosen and found.chosen.steps, found.final, goes_on(BASE, found)) == (steps, final, more)
    assert re.search(said, found.why)


def test_families():
    budgets = (
        Budget("standard", {"unscaled": ("unscaled", "unscaled_1"), "large": ("larger",)}),
        Budget("other", {"other": ("other_1",)}),
    )
    rows = ["standard", "relative", "unscaled", "unscaled_1", "larger", "other", "other_1", "free"]
    check(budgets, [*rows, "large"], "a study")
    assert families_at(budgets, rows) == [
        {"standard": ("standard", "relative", "free"), "unscaled": ("unscaled", "unscaled_1"), "larger": ("larger",)},
        {"other": ("other", "other_1")},
    ]
    assert families_at(budgets, ["relative", "unscaled_1"]) == [
        {"relative": ("relative",), "unscaled_1": ("unscaled_1",)},
        {},
    ]


def declared(root=Path(__file__).parents[2] / "experiments"):
    files = sorted(path for path in root.glob("*/*.py") if "    budgets=(" in path.read_text(encoding="utf-8"))
    return [path.relative_to(root).with_suffix("").as_posix() for path in files]


@pytest.mark.parametrize("name", declared())
def test_a_declared_budget_covers_all_rows(name, studies):
    """At `cpu`, where every reference row and every representative is trained."""
    study = studies[name]
    trained = [row.id for row in study.rows_at("cpu") if any(s.kind == "train" for s in row.stages or study.stages)]
    found = families_at(study.budgets, trained)
    for budget, families in zip(study.budgets, found, strict=True):
        assert list(families) == list(dict.fromkeys((budget.row, *budget.families)))
    assert sorted(row for families in found for rows in families.values() for row in rows) == sorted(trained)


MISTAKES = {
    "a missing row": (lambda: Budget("bas"), "names the row 'bas', which is not there"),
    "a row in a family": (lambda: Budget("base", {"two": ("tow",)}), "names the row 'tow'"),
    "a row twice": (lambda: Budget("base", {"one": ("two",), "two": ()}), "has the row 'two' in two families"),
    "a rate of 0": (lambda: Budget("base", rates=(0.0, 1.0)), "expected different rates above 0"),
    "a rate twice": (lambda: Budget("base", rates=(1.0, 1.0)), "expected different rates above 0"),
    "a gain of one": (lambda: Budget("base", gain=1.0), "expected a gain between 0 and 1"),
    "no doubling": (lambda: Budget("base", doublings=0), "at least one doubling"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_budget_is_refused(case):
    made, message = MISTAKES[case]
    with pytest.raises(ConfigError, match=message):
        Study(tuple(Row(id, id) for id in ("base", "one", "two")), {}, budgets=(made(),))


STRETCHED = {
    "cosine": (
        {"kind": "cosine", "warmup_steps": 31, "final": 0.0},
        {"training.schedule.warmup_steps": 62},
    ),
    "no warm-up": ({"kind": "cosine", "warmup_steps": 0}, {}),
    "step": ({"kind": "step", "boundaries": (101, 151)}, {"training.schedule.boundaries": (202, 302)}),
    "inverse_sqrt": (
        {"kind": "inverse_sqrt", "warmup_steps": 30, "ramp_steps": 7},
        {"training.schedule.warmup_steps": 60, "training.schedule.ramp_steps": 14},
    ),
    "noam": (
        {"kind": "noam", "warmup_steps": 50},
        {"training.schedule.warmup_steps": 100, "training.learning_rate": 0.4243},
    ),
}


@pytest.mark.parametrize("kind", STRETCHED)
def test_a_schedule_is_stretched_with_the_steps(kind):
    schedule, expected = STRETCHED[kind]
    found = stretched({"steps": 211, "learning_rate": 0.3, "schedule": schedule}, 2.0)
    assert found == {"training.steps": 422, "training.eval_every": 43, **expected}


def test_no_length_has_more_validations_than_stated():
    """Steps 25 had 13 validations: every second step, and the last."""
    for steps in range(1, 120):
        found = stretched({"steps": steps, "schedule": {"kind": "constant"}}, 1.0)
        assert -(-steps // found["training.eval_every"]) <= EVALUATIONS and found["training.steps"] == steps


@pytest.mark.parametrize("kind", fast_are(["noam"], ["noam", "cosine", "linear", "inverse_sqrt"]))
def test_a_stretched_schedule_has_the_rates_of_the_shorter_one(kind):
    """rate(factor x t) of the longer schedule equals rate(t) of the shorter one everywhere, and so do the peaks."""
    settings = {"training.steps": 200, "training.schedule": {"kind": kind, "warmup_steps": 40}}
    config = load(CONFIG, settings.items())
    longer = config.override(stretched(config.resolved["training"], 4.0).items())
    rates = [build(one.resolved["training"], "training")().schedule(29) for one in (config, longer)]
    short, long = (np.asarray(rate(jnp.arange(800.0))) for rate in rates)
    np.testing.assert_allclose(long[3::4], short[:200], atol=0.03 * short[:200].max())
    assert long.max() == pytest.approx(short[:200].max(), rel=0.03)


class Executor:
    """Ends each trial at once with the validation losses of `losses(row, given)`, which are NaN if it diverged."""

    jobs = 1

    def __init__(self, losses):
        self.losses, self.started = losses, []

    def open(self, workdir: Path) -> None:
        pass

    def close(self) -> None:
        pass

    def start(self, folder: Path):
        trial = json.loads((folder / "trial.json").read_text())
        training = trial["given"]["training"]
        assert [stage["kind"] for stage in trial["stages"]] == ["train"]
        self.started.append((trial["row"], training["learning_rate"], training["steps"]))
        losses = self.losses(trial["row"].split("-")[0], training)
        if losses is None:
            ending = Ending("failed", "no memory")
            return SimpleNamespace(begun=lambda: True, ending=lambda: ending)
        every = training["eval_every"]
        curve = [[every * (n + 1), loss] for n, loss in enumerate(losses)]
        train = {"steps_per_second": 4.0, "stage_seconds": 30.0, "seconds": 20.0, "compile_seconds": 5.0}
        result = {"stages": {"train": train}, "curves": {"validation": curve}, "cores": 1, "seconds": 1.0}
        result |= {"diverged": "the loss is nan" if math.isnan(losses[-1]) else None, "environment": {}}
        result |= {"fingerprint": trial["fingerprint"], "config_hash": trial["config_hash"]}
        (folder / "result.json").write_text(json.dumps(result))
        return SimpleNamespace(begun=lambda: True, ending=lambda: Ending("done"))


STUDY = Study(
    rows=(
        Row("base", "base"),
        Row("same", "same", {"model.num_heads": 1}),
        Row("wild", "wild", {"model.self_attention.kind": "unscaled", "training.learning_rate": 0.2}),
        Row("longer", "longer", {"training.steps": 120, "training.learning_rate": 0.2}),
    ),
    scales={"cpu": Scale(CONFIG, {"training.steps": 40, "training.learning_rate": 0.4}, seeds=3, jobs=2)},
    budgets=(Budget("base", {"wild": ("wild", "longer")}, doublings=4),),
    name="fake/table",
)


def losses(row, training):
    """The loss decreases with the length up to 160 steps.

    The best rates are 0.4 for `base` and 0.1 for `wild`, which diverges at 0.4.
    """
    rate, steps = training["learning_rate"], training["steps"]
    if row == "wild" and rate > 0.3:
        return [2.0, math.nan]
    best = 0.1 if row == "wild" else 0.4 * math.sqrt(steps / 40)
    lowest = 2.0 + 8 / min(steps, 160) + max(0.0, abs(math.log(rate / best)) - 0.01)
    return [lowest + 1, lowest, lowest + 0.5]


def find(workdir, executor, study=STUDY, recorded=None, **options):
    """The budget's document, without data, pictures or waiting. `recorded` stands for the study's own trials."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "prepare_data", lambda trials: None)
        patch.setattr(run, "fingerprint", lambda: "sources")
        patch.setattr(run, "find_executor", lambda runner, **settings: executor)
        patch.setattr(budgeting, "fingerprint", lambda: "sources")
        patch.setattr(budgeting._Search, "recorded", lambda search: recorded or {})
        patch.setattr(figures, "draw", lambda found, folder: [])
        patch.setattr(loop, "_POLL_SECONDS", 0.0)
        return budgeting.find_budget(study, scale="cpu", workdir=workdir, **options)


@pytest.fixture(scope="module")
def ran_before(tmp_path_factory, root):
    """(the folder, the executor, the document) of a finished budget."""
    workdir, executor = tmp_path_factory.mktemp("budget"), Executor(losses)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return workdir, executor, find(workdir, executor)


def test_a_budget_is_found(ran_before):
    _, executor, found = ran_before
    (part,) = found["budgets"]
    assert [(family["row"], family["rows"], family["best"]) for family in part["families"]] == [
        ("base", ["base", "same"], 1.0),
        ("wild", ["wild", "longer"], 0.5),
    ]
    assert [one["loss"] for one in part["families"][1]["rates"]][-1] is None  # it diverged
    assert part["families"][1]["edge"] and not part["families"][0]["edge"]
    assert [(one["steps"], one["step"]) for one in part["lengths"]] == [
        (20, 4),
        (40, 8),
        (80, 16),
        (160, 32),
        (320, 64),
    ]
    assert (part["steps"], part["factor"], part["final"]) == (160, 4.0, True)
    # The warm-up of smoke is 100. Noam's factor grows with the root of the warm-up, so that the peak is the tested
    # rate.
    assert part["families"][0]["overrides"] == {
        "training.steps": 160, "training.eval_every": 16, "training.schedule.warmup_steps": 400,
        "training.learning_rate": 0.8,
    }  # fmt: skip
    assert part["families"][1]["overrides"]["training.learning_rate"] == 0.2
    assert sorted(executor.started) == sorted([
        ("base-rate-0.5-steps-1", 0.2, 40), ("base-rate-1-steps-1", 0.4, 40), ("base-rate-2-steps-1", 0.8, 40),
        ("wild-rate-0.5-steps-1", 0.1, 40), ("wild-rate-1-steps-1", 0.2, 40), ("wild-rate-2-steps-1", 0.4, 40),
        ("base-rate-1-steps-0.5", 0.2828, 20), ("base-rate-1-steps-2", 0.5657, 80), ("base-rate-1-steps-4", 0.8, 160),
        ("base-rate-1-steps-8", 1.131, 320),
    ])  # fmt: skip


def test_the_trials_of_a_scale_with_stages_of_its_own_train_only(tmp_path):
    plain = {"stages": (train, evaluate), "columns": (LOSS,), "reference": "base", "decided_by": LOSS}
    size = dataclasses.replace(STUDY.scale("cpu"), **plain)
    study = dataclasses.replace(STUDY, stages=(evaluate,), scales={"cpu": size})
    executor = Executor(losses)
    assert find(tmp_path, executor, study, rows=["same"])["budgets"][0]["steps"] == 160 and len(executor.started) == 7


def test_repeating_the_command_runs_nothing(ran_before):
    workdir, _, found = ran_before
    again = Executor(losses)
    assert find(workdir, again) == found and again.started == []


def test_hours_are_those_of_all_rows_and_seeds(ran_before):
    """15 seconds to start, then 4 steps a second. No record has the time after training."""
    *_, found = ran_before
    seconds = {row["row"]: (row["steps"], round(3600 * row["hours_a_seed"], 6)) for row in found["rows"]}
    assert seconds == {"base": (160, 55), "same": (160, 55), "wild": (160, 55), "longer": (480, 135)}
    assert 3600 * found["hours"] == pytest.approx(3 * 300) and not found["evaluated"]


def test_a_recorded_row_says_how_much_slower_it_is(ran_before):
    def result(speed, after):
        stages = {"train": {"steps_per_second": speed, "replicas": 2}, "evaluate": {"stage_seconds": after}}
        return {"stages": stages, "diverged": None}

    recorded = {"base": [result(8.0, 7.0)], "same": [result(2.0, 11.0), result(2.0, 13.0)]}
    found = find(ran_before[0], Executor(losses), recorded=recorded)
    seconds = {row["row"]: round(3600 * row["hours_a_seed"], 6) for row in found["rows"]}
    assert seconds == {"base": 15 + 40 + 7, "same": 15 + 4 * 40 + 12, "wild": 15 + 40 + 11, "longer": 15 + 120 + 11}
    assert found["evaluated"]


def test_only_the_families_that_are_asked_for(ran_before):
    (part,) = find(ran_before[0], Executor(losses), rows=["same"])["budgets"]
    assert [family["row"] for family in part["families"]] == ["base"]


def test_a_reference_that_diverges_is_one_line(tmp_path):
    with pytest.raises(RunError, match="base diverged at each of its rates; give the budget lower ones"):
        find(tmp_path, Executor(lambda row, training: [math.nan]), rows=["base"])


def test_a_trial_that_fails_runs_again(tmp_path):
    with pytest.raises(RunError, match="3 of 6 trials failed: no memory; the same command runs them again"):
        find(
            tmp_path, Executor(lambda row, training: None if row == "wild" else losses(row, training)), rows=["longer"]
        )
    executor = Executor(lambda row, training: [1.0])
    assert find(tmp_path, executor)["budgets"][0]["families"][1]["best"] == 1.0
    assert sum(row.startswith("wild") for row, *_ in executor.started) == 3


def test_the_page_shows_the_lines_to_write(ran_before):
    text = page(ran_before[2])
    assert "| wild   |           0.1 | 0.5 |" in text and "diverged" in text
    assert "best, at the edge of what was tried" in text
    assert "160 steps: 320 steps lower the validation loss by 0.0%, less than 1%" in text
    assert '"training.steps": 160,' in text and "4 times as many" in text
    assert '  rows wild, longer: "training.learning_rate": 0.2' in text
    assert "0.2 hours of trials, 0.1 with 2 at a time; without what follows training" in text
    assert "speed of base" in text and text.endswith("budget.json")


def test_the_page_marks_results_that_are_not_final(ran_before):
    (part,) = ran_before[2]["budgets"]
    found = {**ran_before[2], "budgets": [{**part, "final": False, "why": "the loss is still falling"}]}
    assert "no final budget: the loss is still falling" in page(found) and "not final" in page(found)


ERRORS = {
    "a study without training": (["ablation/length"], "ablation/length trains no model at cpu"),
    "a study without a budget": (["hu2018/se"], "hu2018/se declares no budget; give its Study budgets="),
    "an unknown scale": (["vaswani2017/table3", "--scale=cpuu"], "did you mean cpu?"),
    "an unknown row": (["vaswani2017/table3", "--rows=bas"], "did you mean base?"),
    "an override": (["vaswani2017/table3", "--config.model.width=4"], "a study's rows are fixed"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_mistake_is_one_line(case, capsys):
    words, message = ERRORS[case]
    assert main(["budget", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_budget(tmp_path, in_process):
    """Two lengths of one row on generated words, with each trial in this process."""
    data = {
        "name": "generated_translation/monotone", "source_language": "source", "target_language": "target",
        "tokenizer": {"kind": "words"}, "batching": {"kind": "buckets", "boundaries": (32,)},
    }  # fmt: skip
    small = {"data": data, "vocabulary_size": 300, "training.steps": 12, "training.schedule.warmup_steps": 4}
    study = Study(
        rows=(Row("base", "base"),),
        scales={"cpu": Scale(CONFIG, small, seeds=2)},
        budgets=(Budget("base", doublings=1, rates=(1.0,)),),
        name="fake/table",
    )
    assert budgeting.budget(study, scale="cpu", workdir=tmp_path / "run") == 0
    found = json.loads((tmp_path / "run" / "budget.json").read_text())
    (part,) = found["budgets"]
    assert [one["steps"] for one in part["lengths"]] == [6, 12] and part["lengths"][1]["gain"] > 0
    assert found["rows"][0]["hours"] > 0 and not list((tmp_path / "run").rglob("evaluation.json"))
