"""The curves of power2022/grokking from a hand-made log, its verdicts from hand-made numbers, and its smoke sizes."""

import json

import pytest
from results_of import results_of

from attention_research.studies.loading import load_study
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "power2022/grokking"


def function(name):
    study = load_study(STUDY)
    (stage,) = (stage for stage in study.stages if stage.kind == "measure")
    return {"measure": stage.function, **study.verdicts}[name]


def test_updates_are_read_from_the_log(tmp_path):
    lines = [
        {"step": step, "split": "train", "loss": 1.0, "correct": min(1.0, step / 300)} for step in range(10, 1001, 10)
    ]
    lines += [{"step": step, "split": "validation", "loss": 1.0, "correct": 0.991 if step >= 700 else 0.2}
              for step in range(50, 1001, 50)]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = function("measure")(workdir=tmp_path, seed=0)
    assert (found["fitted"], found["generalised"], found["learned"]) == (300, 700, 100.0)
    assert found["validation_accuracy"] == found["best_accuracy"] == 99.1
    assert found["validation_steps"] == list(range(50, 1001, 50)) and len(found["training_steps"]) == 100
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:29] + lines[100:113]))
    found = function("measure")(workdir=tmp_path, seed=0)
    assert "fitted" not in found and "generalised" not in found and found["learned"] == 0.0
    assert found["best_accuracy"] == 20.0


def test_many_points_are_spread_on_a_logarithmic_axis():
    spread = function("measure").__globals__["spread"]
    some = spread(list(range(10, 20_001, 10)))
    assert len(some) <= 120 and some[0] == 10 and some[-1] == 20_000 and some == sorted(set(some))
    assert sum(step <= 450 for step in some) > 30


@pytest.mark.parametrize(
    ("claim", "numbers", "outcome"),
    [
        ("grokking-is-late", {"division": {"measure.fitted": [200, 300], "measure.generalised": [900, 900]}}, HELD),
        ("grokking-is-late", {"division": {"measure.fitted": [200, 301], "measure.generalised": [900, 900]}}, FAILED),
        ("grokking-is-late", {"division": {"measure.fitted": [200]}}, FAILED),  # it never knows the others
        ("grokking-is-late", {"division": {}}, UNTESTED),
        (
            "grokking-weight-decay",
            {"division": {"measure.generalised": [4000, 9000], "measure.best_accuracy": [100, 100]},
             "division_no_decay": {"measure.best_accuracy": [30, 40]}},
            HELD,
        ),
        (
            "grokking-weight-decay",
            {"division": {"measure.generalised": [4000, 9000], "measure.best_accuracy": [100, 100]},
             "division_no_decay": {"measure.generalised": [17_000, 19_000], "measure.best_accuracy": [100, 100]}},
            FAILED,
        ),
        (
            "grokking-less-data",
            {"s5_30": {"measure.best_accuracy": [10, 20, 10]},
             "s5_40": {"measure.generalised": [900, 800, 700], "measure.best_accuracy": [100, 100, 100]},
             "s5_50": {"measure.generalised": [300, 799, 900], "measure.best_accuracy": [100, 100, 100]}},
            UNTESTED,
        ),
        (
            "grokking-less-data",
            {"s5_30": {"measure.best_accuracy": [10]},
             "s5_35": {"measure.generalised": [900], "measure.best_accuracy": [100]},
             "s5_40": {"measure.generalised": [950], "measure.best_accuracy": [100]},
             "s5_50": {"measure.generalised": [300], "measure.best_accuracy": [100]}},
            FAILED,
        ),
        ("grokking-polynomial", {"polynomial": {"measure.fitted": [100, 100], "measure.best_accuracy": [5, 9]}}, HELD),
        ("grokking-polynomial", {"polynomial": {"measure.fitted": [99, 99], "measure.best_accuracy": [5, 60]}}, FAILED),
    ],
)  # fmt: skip
def test_verdicts(claim, numbers, outcome):
    assert function(claim)(results_of(numbers)).status == outcome
