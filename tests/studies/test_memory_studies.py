"""The studies of long memory and associative recall: published sizes, rates, verdicts on made-up numbers."""

import dataclasses

import pytest
from results_of import results_of

from attention_research.studies.results import Results, published
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

MIXERS = ("attention", "hyena", "linear", "retnet", "rwkv7", "gru")
RATES = ("0.0001", "0.00046", "0.0022", "0.01")


def row_of(study, id):
    return next(row for row in study.rows if row.id == id)


def test_the_rows_of_bai_have_the_published_sizes(studies):
    study = studies["bai2018/table1"]
    for row in study.rows:
        config = configuration(study, "paper", row).resolved
        copying = row.id.startswith("copy_")
        assert config["max_length"] == (1020 if copying else 600)
        assert config["training"]["steps"] == (3000 if copying else 7000) and config["training"]["batch_size"] == 32
        assert config["data"]["kind"] == ("copy_memory" if copying else "adding")
        assert config["model"]["outputs"] == (10 if copying else 1)
        rate, clip = (config["training"][name] for name in ("learning_rate", "clip_norm"))
        if row.id.endswith("_tcn"):
            assert (rate, clip) == (0.0005 if copying else 0.004, None)
            assert config["model"]["network"]["kernel_width"] == config["model"]["network"]["num_layers"] == 8
    assert float(published(study)["copy_tcn"]["loss a position"]) == 3.5e-5


COPY, ADD = "evaluate.position_loss", "evaluate.squared_error"


def of_bai(study, losses, errors):
    """Results with three seeds for each row: loss (1 +- 1 %)."""
    spread = lambda value: [value, value * 1.01, value * 0.99]
    numbers = {f"copy_{row}": {COPY: spread(x), "evaluate.memoryless_loss": [0.0204] * 3} for row, x in losses.items()}
    numbers |= {f"adding_{row}": {ADD: spread(x), "evaluate.constant_error": [0.167] * 3} for row, x in errors.items()}
    return results_of(numbers, competence=study.competence, scale="paper")


def test_verdicts_of_bai_follow_the_numbers(studies):
    study = studies["bai2018/table1"]
    printed = {"lstm": 0.0204, "lstm_open": 0.0203, "gru": 0.0202, "rnn": 0.0204, "tcn": 3.5e-5, "rotary": 1e-4}
    errors = {"lstm": 0.164, "lstm_open": 0.1, "gru": 5.3e-5, "rnn": 0.177, "tcn": 5.8e-5, "rotary": 1e-4}
    as_printed = of_bai(study, printed, errors)
    for claim, verdict in study.verdicts.items():
        assert verdict(as_printed).status == HELD, (claim, verdict(as_printed))
    partly = of_bai(study, {**printed, "lstm_open": 0.0203}, errors)
    partly.entries[3].result["stages"].clear()  # one of three runs of the LSTM with an open gate
    partly.entries[3].result["diverged"] = "step 9"
    assert study.verdicts["recurrent-networks-forget"](partly).status == FAILED
    other = of_bai(
        study, {**printed, "gru": 1e-5, "tcn": 0.01, "rotary": 0.012}, {**errors, "lstm": 1e-5, "rotary": 0.01}
    )
    for claim, verdict in study.verdicts.items():
        assert verdict(other).status == FAILED, (claim, verdict(other))


def of_zoology(accuracies):
    """Results in which the third rate is the best."""
    numbers = {}
    for (mixer, width), accuracy in accuracies.items():
        for rate in RATES:
            lower = 0.0 if rate == RATES[2] else 20.0
            numbers[f"{mixer}_{width}_{rate}"] = {"evaluate.accuracy": [accuracy - lower]}
    return results_of(numbers, scale="paper")


def test_verdicts_of_zoology_take_the_best_rate(studies):
    study = studies["zoology2023/figure2"]
    attention, states = (study.verdicts[name] for name in (
        "attention-recalls-at-any-width", "recall-needs-width-without-attention"))  # fmt: skip
    grid = {(mixer, 64): 60.0 for mixer in MIXERS} | {(mixer, 128): 80.0 for mixer in MIXERS}
    grid |= {("attention", 64): 99.5, ("attention", 128): 99.9}
    assert attention(of_zoology(grid)).status == states(of_zoology(grid)).status == HELD
    assert attention(of_zoology(grid | {("attention", 64): 98.0})).status == FAILED
    assert states(of_zoology(grid | {("gru", 128): 64.0})).status == FAILED
    assert states(of_zoology(grid | {("retnet", 64): 99.2, ("retnet", 128): 100.0})).status == FAILED
    assert attention(Results(study, "paper", study.rows, ())).status == UNTESTED
    some = of_zoology(grid)
    entries = tuple(one for one in some.entries if one.trial.row != "gru_64_0.0001")
    assert states(dataclasses.replace(some, entries=entries)).status == UNTESTED  # a rate is missing
    entries = tuple(one for one in some.entries if one.trial.row.endswith("0.0022"))
    assert attention(dataclasses.replace(some, entries=entries)).status == HELD  # no other rate can lower the best


def test_the_rows_of_zoology_are_those_of_the_released_configuration(studies):
    study = studies["zoology2023/figure2"]
    assert len(study.rows) == len(MIXERS) * 2 * 4
    for mixer, layers, positions in (("attention", 2, "learned"), ("hyena", 4, "none")):
        config = configuration(study, "paper", row_of(study, f"{mixer}_128_0.0022")).resolved
        network = config["model"]["network"]
        assert network["num_layers"] == layers and network["num_heads"] == 1
        assert network["positions"]["kind"] == positions and config["model"]["width"] == 128
        assert network["stack"]["steps"] == [["norm", "self_attention", "residual"], ["norm", "residual"]]
        assert config["training"]["steps"] == 64 * 196 and config["training"]["learning_rate"] == 0.0022
    cells = published(study)
    assert {row.id for row in study.rows if "hyena" in row.id or "attention" in row.id} == set(cells)


def test_the_figure_draws_the_best_rates(studies, tmp_path):
    pytest.importorskip("matplotlib")
    study = studies["zoology2023/figure2"]
    (drawn,) = [draw(of_zoology({("attention", 64): 99.5, ("hyena", 64): 55.0}), tmp_path) for draw in study.figures]
    assert drawn.path.exists() and "attention 100 at 64; Hyena 55 at 64" in drawn.alt


def test_simple_networks_need_not_know_the_training_commands(studies):
    """The simple network with attention gets 40 % of the random split wrong in the paper."""
    study = studies["lake2018/table1"]
    wrong = {"simple_overall": (0.1, 0.2), "simple_srn_attention": (38.0, 40.3), "simple_srn": (99.0, 99.5)}
    keys = ("evaluate.seen.word_error_rate", "evaluate.word_error_rate")
    numbers = {
        row: {key: [value, value + 0.1, value + 0.05] for key, value in zip(keys, values, strict=True)}
        for row, values in wrong.items()
    }
    results = results_of(numbers, scale="paper", competence=study.competence, verdicts=study.verdicts)
    assert study.verdicts["attention-helps-simple-networks"](results).status == HELD


def test_both_splits_of_scan_need_a_model_that_knows_the_training_commands(studies):
    verdict = studies["lake2018/table1"].verdicts["recurrent-models-do-not-compose"]

    def judge(**rows):
        keys = ("evaluate.seen.word_error_rate", "evaluate.word_error_rate")
        numbers = {row: {} for row in ("length_overall", "length_best", "jump_overall", "jump_best")}
        numbers |= {row: {key: [value] * 2 for key, value in zip(keys, one, strict=True)} for row, one in rows.items()}
        return verdict(results_of(numbers, scale="paper")).status

    longer = {"length_overall": (0.1, 80.0), "length_best": (0.2, 90.0)}
    assert judge(**longer, jump_overall=(0.1, 99.0), jump_best=(0.1, 98.0)) == HELD
    assert judge(**longer, jump_overall=(0.1, 99.0), jump_best=(9.0, 98.0)) == HELD
    assert judge(**longer, jump_overall=(8.0, 99.0), jump_best=(9.0, 98.0)) == judge(**longer) == UNTESTED
    assert judge(**longer, jump_overall=(0.1, 40.0), jump_best=(0.1, 98.0)) == FAILED
