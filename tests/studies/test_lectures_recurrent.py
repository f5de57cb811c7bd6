"""The lectures' studies of recurrence: verdicts by hand, pictures, equal parameters, configs, smoke runs."""

import numpy as np
import pytest
from results_of import clear_cases, results_of

from attention_research.config import build_experiment
from attention_research.layers.structure import abstract
from attention_research.studies.comparisons import REVERSED
from attention_research.studies.loading import dereference, reference
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

NAMES = ("lectures/gradients", "lectures/interpretability", "lectures/rnn_vs_transformer")
SEEDS = [0.0, 0.01, -0.01]


def around(value):
    return [value + seed for seed in SEEDS]


def judged(study, claim, numbers, **of):
    return study.verdicts[claim](results_of(numbers, **of))


@pytest.mark.parametrize("name", NAMES)
def test_every_row_resolves_at_every_scale(name, studies):
    for scale in ("smoke", "cpu"):
        for row in studies[name].rows_at(scale):
            assert configuration(studies[name], scale, row).resolved["training"]["steps"] >= 4


def path(slope, fit=0.99, steps=63):
    return {
        "measure.slope": around(slope),
        "measure.fit": [fit] * 3,
        "measure.log_ratio": [steps * value for value in around(slope)],
    }


def test_stable_gradients_are_not_evidence(studies):
    study = studies["lectures/gradients"]
    claim = "rnn-gradients-vanish-or-explode"
    rows = {f"{cell}_{gain}": path(0.2) for cell in ("vanilla", "gru", "lstm") for gain in ("small", "one", "large")}
    rows["vanilla_small"] = path(-0.3)
    assert judged(study, claim, rows).status == HELD
    assert judged(study, claim, {row: rows[row] for row in list(rows)[1:]}).status == UNTESTED
    found = judged(study, claim, {**rows, "lstm_one": path(-0.005)})
    assert found.status == FAILED and len(clear_cases(found)) == 8 and "(explodes)" in found.because
    assert judged(study, claim, {"vanilla_small": path(-0.3, fit=0.5)}).status == FAILED
    assert judged(study, claim, {"vanilla_small_attention": path(-0.3)}).status == UNTESTED


def test_attention_has_to_help_the_farthest(studies):
    study, claim = studies["lectures/gradients"], "attention-shortens-gradient-path"
    rows = {}
    for cell in ("vanilla", "gru", "lstm"):
        rows |= {f"{cell}_small": path(-0.3), f"{cell}_small_attention": path(-0.05)}
        rows |= {f"copy_{cell}": {"measure.far": around(0.1)}, f"copy_{cell}_attention": {"measure.far": around(0.9)}}
    assert judged(study, claim, rows).status == HELD
    rows["copy_lstm"] = {"measure.far": around(0.9)}
    assert judged(study, claim, rows).status == FAILED


def test_interpretability_is_a_paired_difference(studies):
    study, claim = studies["lectures/interpretability"], "attention-interpretable"
    row = {"measure.most_attended": [3.0, 1.0, 2.0], "measure.random": [2.5, 0.51, 1.5],
           "measure.with_saliency": around(0.4)}  # fmt: skip
    rows = {row_.id: row for row_ in study.rows}
    assert judged(study, claim, rows).status == HELD
    rows["transformer"] = {**row, "measure.with_saliency": around(0.0)}
    assert judged(study, claim, rows).status == FAILED
    worse = {**row, "measure.random": [3.5, 1.4, 2.6], "measure.with_saliency": around(-0.2)}
    assert judged(study, claim, {row_.id: worse for row_ in study.rows}).status == FAILED


def course(speed, falls):
    seconds = [[speed * step for step in (1, 2, 3)]] * 3
    errors = [[100.0 - falls * step + seed for step in (1, 2, 3)] for seed in SEEDS]
    return {"measure.clock": seconds, "measure.errors": errors}


def test_equal_time_is_read_between_checkpoints(studies):
    study = studies["lectures/rnn_vs_transformer"]
    at_equal_time = study.verdicts["attention-can-replace-recurrence"].__globals__["at_equal_time"]
    rows = {"slow": course(2.0, 3.0), "fast": course(1.0, 3.0), "lstm": course(1.0, 2.0)}
    # After 3 seconds `slow` is between its checkpoints at 2 and 4 seconds (97 % and 94 %), the LSTM at its last (94 %).
    found = at_equal_time(results_of(rows), "slow", "lstm")
    assert abs(found.gain - (4.5 - 6.0)) < 1e-9 and found.clear is False
    found = at_equal_time(results_of(rows), "fast", "lstm")
    assert abs(found.gain - 3.0) < 1e-9 and found.clear is True


def test_more_compute_and_less_time_are_two_cases(studies):
    study, claim = studies["lectures/rnn_vs_transformer"], "transformer-more-compute-faster"
    falling = lambda last: [[step, 5.0 - (5.0 - last) * step / 100] for step in range(10, 110, 10)]
    rows = {
        "transformer": {"inspect.flops": [8.0] * 3, "train.loss": around(3.3), "train.steps_per_second": [10.0] * 3},
        "rnnsearch": {"inspect.flops": [4.0] * 3, "train.loss": around(3.9), "train.steps_per_second": [5.0] * 3},
    }
    curves = {"transformer": [falling(2.0)] * 3, "rnnsearch": [falling(2.9)] * 3}
    assert judged(study, claim, rows, curves=curves).status == UNTESTED
    rows["lstm_attention"], curves["lstm_attention"] = rows["rnnsearch"], curves["rnnsearch"]
    assert judged(study, claim, rows, curves=curves).status == HELD
    rows["transformer"]["train.steps_per_second"] = [1.0] * 3
    found = judged(study, claim, rows, curves=curves)
    assert found.status == FAILED and "2.00 times the operations per update of rnnsearch" in found.because
    assert found.cases["time, rnnsearch"].outcome == REVERSED


@pytest.mark.slow
def test_pictures_are_drawn_of_existing_results(studies, tmp_path):
    lists = [[-0.1 * k for k in range(9)]] * 3
    recalls = {"measure.delays": [[0, 1, 2]] * 3, "measure.recalls": [[1.0, 0.5, 0.2]] * 3, "measure.far": around(0.2)}
    numbers = {
        "lectures/gradients": {
            "vanilla_small": {**path(-0.1), "measure.log_norms": lists},
            "lstm_small_attention": {**path(-0.1), "measure.log_norms": [[None, *lists[0][1:]]] * 3},
            "copy_lstm_attention": recalls,
        },
        "lectures/interpretability": {"rnnsearch": {"measure.by_rank": [[1.0, 0.5, None]] * 3}},
        "lectures/rnn_vs_transformer": {"lstm": course(1.0, 2.0), "copy_lstm": recalls, "last_lstm": recalls},
    }
    for name in NAMES:
        for draw in studies[name].figures:
            figure = draw(results_of(numbers[name]), tmp_path)
            assert figure.path.read_bytes().startswith(b"\x89PNG") and figure.path.stat().st_size > 10_000
            assert ":" in figure.alt
            assert draw(results_of({}), tmp_path) is None


@pytest.mark.slow
def test_a_path_is_measured_as_its_row_says(studies):
    measured = studies["lectures/gradients"].rows[0].stages[0].function
    assert dereference(reference(measured)).__name__ == "measure_path"
    found = measured(cell="vanilla", gain=0.5, attention=False, width=7, length=11, rows=2, seed=1, workdir=None)
    assert found["slope"] < np.log10(0.5) and found["fit"] > 0.9 and len(found["log_norms"]) == 11


@pytest.mark.slow
def test_the_compared_models_have_equal_parameters(studies):
    study, counts = studies["lectures/rnn_vs_transformer"], {}
    for row in study.rows:
        model = build_experiment(configuration(study, "cpu", row)).model
        arrays = abstract(lambda rngs, model=model: model(rngs=rngs))[1]
        counts[row.id] = sum(int(np.prod(x.shape)) for x in arrays.values())
    for group in (list(counts)[:5], list(counts)[5:]):
        sizes = [counts[row] for row in group]
        assert max(sizes) / min(sizes) < 1.05, dict(zip(group, sizes, strict=True))
