"""`lectures/sets`: every row's settings, verdicts by hand."""

from results_of import results_of

from attention_research.experiments.lectures.sets.models import MODELS
from attention_research.experiments.lectures.sets.tasks import TASKS
from attention_research.studies.comparisons import REVERSED
from attention_research.studies.verdicts import FAILED, HELD

STUDY = "lectures/sets"


def test_every_model_answers_every_question(study):
    asked = {(row.settings["task"], row.settings["model"]) for row in study.rows_at("cpu")}
    assert asked == {(task, model) for task in TASKS for model in MODELS}
    assert 1 <= len(study.rows_at("smoke")) <= 3


def judged(study, any_order, ascending, changed=0.0):
    """The verdict if attention gets 0.9 everywhere and the recurrence gets these numbers, by task."""
    near = lambda x: [x - 0.01, x, x + 0.01]
    rows = {}
    for task, first, second in zip(TASKS, any_order, ascending, strict=True):
        for model, one, other, moves in (("attention", 0.9, 0.9, changed), ("rnn", first, second, 0.3)):
            keys = {"accuracy": one, "sorted_accuracy": other}
            rows[f"{task}_{model}"] = {f"measure.{key}": near(value) for key, value in keys.items()}
            rows[f"{task}_{model}"] |= {f"measure.{key}": [moves] * 3 for key in ("changed", "sorted_changed")}
    return study.verdicts["attention-learns-on-sets"](results_of(rows))


def test_attention_has_to_win_on_seen_and_unseen_orders(study):
    assert judged(study, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2)).status == HELD
    partly = judged(study, (0.95, 0.95, 0.9), (0.2, 0.2, 0.2))
    assert partly.status == FAILED and partly.cases["largest, trained on any order"].outcome == REVERSED
    assert judged(study, (0.95, 0.95, 0.95), (0.95, 0.95, 0.95)).status == FAILED


def test_attention_that_depends_on_the_order_fails(study):
    found = judged(study, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), changed=0.02)
    assert found.status == FAILED and "2.0% of answers change" in found.because
