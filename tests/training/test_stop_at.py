"""Runs that end early: after the given number of good validations in a row, and not again when they are continued."""

import math

import pytest

from attention_research.config import ConfigError, load
from attention_research.training.metrics_log import read_metrics
from attention_research.training.run import train
from attention_research.training.workdir import json_text, write_text
from attention_research.workdirs.status import run_line

CONFIG = "configs/arithmetic/equations.py:smoke"
FURTHER = [("evaluations.written.kind", "perplexity"), ("evaluations.written.split", "validation")]
FURTHER += [("evaluations.tested.kind", "perplexity"), ("evaluations.tested.split", "test")]


def config(**training):
    settings = {"steps": 12, "eval_every": 2, "stop_by": "loss", "stop_checks": 3, **training}
    return load(CONFIG, [(f"training.{name}", value) for name, value in settings.items()])


@pytest.mark.slow
def test_a_run_ends_after_three_good_validations_and_does_nothing_more(tmp_path):
    """Every loss is above 0.01, and `stop_by` may be any number."""
    assert train(config(stop_at=0.01), tmp_path)["steps"] == 6
    steps = [line["step"] for line in read_metrics(tmp_path) if line["split"] == "validation"]
    assert steps == [2, 4, 6] and (tmp_path / "checkpoints" / "6").exists()
    before = (tmp_path / "metrics.jsonl").read_bytes()
    assert train(config(stop_at=0.01), tmp_path)["steps"] == 6
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_run_that_ends_between_two_logged_steps_is_finished(tmp_path):
    assert train(config(stop_at=0.01, stop_checks=1, eval_every=3, log_every=2), tmp_path)["steps"] == 3
    assert [line["step"] for line in read_metrics(tmp_path) if line["split"] == "train"] == [2, 3]
    line = run_line(tmp_path)
    assert (line.state, line.step) == ("finished", 3)


@pytest.mark.slow
def test_a_run_that_is_not_good_enough_has_all_steps(tmp_path):
    assert train(config(stop_at=1000.0), tmp_path)["steps"] == 12


WRONG = {
    "right": r"^config\.training\.stop_by: a validation has no right; there are correct, .*, written\.bits$",
    "corect": r"stop_by: a validation has no corect; did you mean correct\?$",
    "written.perplxity": r"stop_by: a validation has no written\.perplxity; did you mean written\.perplexity\?$",
    "tested.perplexity": r"stop_by: a validation has no tested\.perplexity; did you mean written\.perplexity\?$",
}


@pytest.mark.parametrize(("name", "line"), WRONG.items(), ids=WRONG)
def test_a_number_that_no_validation_has_is_refused_before_anything_is_written(name, line, tmp_path):
    with pytest.raises(ConfigError, match=line):
        train(config(stop_at=0.5, stop_by=name).override(FURTHER), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_replicas_do_not_end_each_at_its_own_step(tmp_path):
    with pytest.raises(
        ConfigError, match=r"^config.training.stop_at: each run ends at its own step, but replicas end "
    ):
        train(config(stop_at=0.5, replicas=2), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_validation_that_is_not_finite_is_not_good_enough(tmp_path):
    """It is logged as null, and read when the run is continued."""
    train(config(stop_at=1000.0, stop_by="correct", steps=4), tmp_path)
    lines = [line for line in read_metrics(tmp_path) if line["split"] == "validation"]
    lines = [{**line, "correct": math.nan if line["step"] == 2 else 2000.0} for line in lines]
    write_text(tmp_path / "metrics.jsonl", "".join(json_text(line) + "\n" for line in lines))
    assert train(config(stop_at=1000.0, stop_by="correct"), tmp_path)["steps"] == 12
