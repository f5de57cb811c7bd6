"""Raffel et al. 2017 and Chiu & Raffel 2018: rows, verdicts on made-up numbers, and a quick run of the whole path."""

import csv

import pytest
from results_of import declared, results_of

from attention_research.studies.comparisons import CLEAR, REVERSED, UNMEASURED
from attention_research.studies.run import run_study
from attention_research.studies.trials import configuration, plan
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

NAMES = ("raffel2017/online", "chiu2018/table1")


@pytest.mark.parametrize("scale", ["smoke", "cpu", "gpu"])
@pytest.mark.parametrize("name", NAMES)
def test_rows_differ_in_their_alignment_and_data_alone(studies, name, scale):
    """Encoder and decoder can be read online.

    Only the alignment, the data, and settings required by the data differ.
    """
    study = studies[name]
    configs = [configuration(study, scale, row).resolved for row in study.rows_at(scale)]
    assert len({str(config) for config in configs}) == len(configs)
    for config in configs:
        assert config["model"]["encoder"]["kind"] == "unidirectional"
        assert config["model"]["decoder"]["start"]["kind"] == "zeros"
        assert config["evaluation"]["kind"] == "error_rate"
        widths = [config["model"][name] for name in ("width", "embedding_width", "dropout_rate")]
        assert widths == [configs[0]["model"][name] for name in ("width", "embedding_width", "dropout_rate")]


def test_the_two_studies_share_trials(studies):
    plans = []
    for one in map(studies.__getitem__, NAMES):
        plans.append({trial.id: trial.row for trial in plan(one, "cpu", one.rows_at("cpu"), 3, "sources")})
    shared = {plans[0][id] for id in plans[0].keys() & plans[1].keys()}
    assert shared == {f"{task}_{kind}" for task in ("sounds", "local") for kind in ("soft", "monotonic", "mocha")}


def test_the_papers_cells(root):
    with open(root / "experiments/chiu2018/table1.csv", newline="") as file:
        table = {line["row"]: line for line in csv.DictReader(file)}
    assert table["paper_soft"]["WSJ mean WER %"] == "14.6" and table["paper_mocha_2"]["WSJ best WER %"] == "13.9"
    assert table["paper_monotonic"]["CNN/DM ROUGE-1"] == "31.14"
    with open(root / "experiments/raffel2017/online.csv", newline="") as file:
        assert {line["row"]: line["WSJ WER %"] for line in csv.DictReader(file)} == {
            "wsj_ctc": "33.4", "wsj_monotonic": "17.4",
        }  # fmt: skip


def numbers(sounds=10.5, monotone=1.2, local=9.0, alike=1.0, early=0.4, bleu=60.0, lag=4.0, forms=2.5):
    """Results in which soft attention has 10, 1 and 2 % and BLEU 90 at lag 14, and other rows the given numbers.

    Soft attention writes 2 % wrong forms.
    """
    soft = {"measure.bleu": [90.0] * 3, "measure.average_lag": [14.0] * 3, "measure.monotone_steps": [0.8] * 3}
    hard = {
        "measure.bleu": [bleu] * 3, "measure.average_lag": [lag] * 3, "measure.online_equal": [1.0, alike, 1.0],
        "measure.written_before_the_end": [0.5, early, 0.5],
    }  # fmt: skip
    error = lambda value: {"evaluate.error_rate": [value - 0.1, value, value + 0.1]}
    return {
        "sounds_soft": {**soft, **error(10.0)}, "sounds_monotonic": {**hard, **error(sounds)},
        "monotone_soft": {**soft, **error(1.0)}, "monotone_monotonic": {**hard, **error(monotone)},
        "local_soft": {**soft, **error(2.0)}, "local_monotonic": {**hard, **error(local)},
        "local_mocha": {**hard, **error(3.0), "measure.bleu": [89.5] * 3},
        "inflection_soft": {"evaluate.word_error_rate": [1.9, 2.0, 2.1], **soft},
        "inflection_monotonic": {**hard, "evaluate.word_error_rate": [forms - 0.1, forms, forms + 0.1]},
    }  # fmt: skip


def verdicts(study, **asked):
    results = declared(study, results_of(numbers(**asked), verdicts=study.verdicts))
    return {id: function(results) for id, function in study.verdicts.items()}


def test_verdicts_follow_the_numbers(studies):
    study = studies["raffel2017/online"]
    good = verdicts(study)
    assert good["monotonic-same-order"].status == HELD and "9 (local_monotonic)" in good["monotonic-same-order"].because
    assert good["monotonic-read-more-decisions"].status == HELD
    assert good["monotonic-speech"].status == UNTESTED
    assert good["monotonic-speech"].cases["speech itself"].outcome == UNMEASURED
    assert good["monotonic-incremental-translation"].status == FAILED
    assert good["monotonic-incremental-translation"].cases["BLEU, monotonic"].outcome == REVERSED
    assert good["monotonic-inflection-summarization"].status == UNTESTED
    assert good["monotonic-inflection-summarization"].cases["summarization"].outcome == UNMEASURED
    assert good["monotonic-inflection-summarization"].cases["inflection"].outcome == CLEAR
    assert "inflected verbs: 80 %" in good["monotonic-inflection-summarization"].because
    assert verdicts(study, forms=3.5)["monotonic-inflection-summarization"].status == FAILED
    assert verdicts(study, sounds=11.5)["monotonic-same-order"].status == FAILED
    assert verdicts(study, sounds=11.5, monotone=2.5)["monotonic-same-order"].status == FAILED
    assert verdicts(study, sounds=11.5)["monotonic-speech"].status == FAILED
    assert verdicts(study, alike=0.99)["monotonic-read-more-decisions"].status == FAILED
    assert verdicts(study, early=0.0)["monotonic-read-more-decisions"].status == FAILED
    assert verdicts(study, bleu=89.5)["monotonic-incremental-translation"].status == HELD
    assert verdicts(study, bleu=95.0, lag=14.0)["monotonic-incremental-translation"].status == FAILED


def test_both_papers_claims_are_judged(studies):
    assert len(studies["raffel2017/online"].verdicts) == 8


def judged(study, claim, rows):
    return study.verdicts[claim](results_of(rows, verdicts=study.verdicts))


def test_what_training_in_expectation_costs_is_judged(studies):
    study = studies["raffel2017/online"]
    losses = lambda hard: {"measure.hard_loss": hard, "measure.soft_loss": [0.3, 0.3]}
    rows = {"sounds_monotonic": losses([0.35, 0.36]), "sounds_no_noise": losses([0.5, 0.49])}
    assert judged(study, "must-hold-noise-closes-the-gap", rows).status == HELD
    rows["sounds_no_noise"] = losses([0.5, 0.35])
    assert judged(study, "must-hold-noise-closes-the-gap", rows).status == FAILED
    rows = {"sounds_monotonic": {"measure.mode_difference": [1e-6, 9e-5], "measure.energies": [0.9, 1.0]}}
    for claim, key, wrong in (("forms-agree", "mode_difference", 2e-4), ("linear-time", "energies", 1.01)):
        assert judged(study, f"must-hold-{claim}", rows).status == HELD
        worse = {"local_mocha": {f"measure.{key}": [0.0, wrong]}}
        assert judged(study, f"must-hold-{claim}", {**rows, **worse}).status == FAILED


def test_chunks_are_judged_by_reordered_words(studies):
    study = studies["chiu2018/table1"]
    row = lambda error, recall: {
        "evaluate.error_rate": [error, error + 0.01], "measure.reordered_recall": [recall, recall + 0.001]
    }  # fmt: skip
    rows = {"local_soft": row(0.0, 0.9), "local_monotonic": row(3.0, 0.4)}
    rows |= {"local_mocha_2": row(2.0, 0.8), "local_mocha_4": row(1.0, 0.9)}
    claim = "must-hold-chunks-recover"
    assert judged(study, claim, rows).status == HELD
    rows["local_mocha_2"] = row(3.0, 0.8)
    assert judged(study, claim, rows).status == FAILED
    assert judged(study, claim, {"local_soft": row(0.0, 0.9)}).status == UNTESTED


@pytest.mark.long
@pytest.mark.data
def test_the_whole_path_at_smoke(tmp_path, in_process):
    """Four rows are trained, evaluated, measured and drawn."""
    rows = ["sounds_soft", "sounds_monotonic", "local_soft", "local_mocha"]
    summary = run_study("raffel2017/online", scale="smoke", rows=rows, workdir=tmp_path / "run")
    assert summary["failed"] == []
    cells = {row["id"]: row["cells"] for row in summary["rows"] if row["id"] in rows}
    assert cells.keys() == set(rows)
    names = {path.name for path in (tmp_path / "run").glob("figures/*.png")}
    assert {"alignments.png", "lag.png", "loss.png"} <= names
    table = (tmp_path / "run" / "table.md").read_text()
    assert "100.0" in next(line for line in table.splitlines() if line.startswith("| letters to sounds: monotonic "))
