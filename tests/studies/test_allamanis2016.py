"""The naming studies: published cells, configurations, verdicts on made-up numbers, whole runs at smoke scale."""

import csv
import sys

import pytest

from attention_research.config import build_experiment
from attention_research.layers.structure import abstract
from attention_research.studies.loading import load_study
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, FIGURE, HELD, UNTESTED
from tests.studies.results_of import results_of


@pytest.fixture(scope="module")
def naming(root):
    """(the study, its module)."""
    study = load_study("allamanis2016/naming", root / "experiments")
    return study, sys.modules[study.verdicts["copy-naming-table"].__module__]


@pytest.fixture(scope="module")
def see(root):
    return load_study("see2017/table1", root / "experiments")


def test_the_printed_cells(root, naming):
    with open(root / "experiments/allamanis2016/naming.csv", newline="") as file:
        printed = {line["row"]: (line["F1"], line["precision"], line["recall"]) for line in csv.DictReader(file)}
    assert printed == {"conv_attention_java_small": ("33.05", "50.25", "24.62")}
    assert naming[1].printed_lambdas() == [
        ("set", 0.012), ("use", 0.974), ("browser", 0.969), ("cache", 0.583), ("END", 0.066)
    ]  # fmt: skip
    with open(root / "experiments/see2017/table1.csv", newline="") as file:
        rouge = {line["row"]: [line[f"ROUGE-{n}"] for n in "12L"] for line in csv.DictReader(file)}
    assert rouge["coverage"] == ["39.53", "17.28", "36.38"] and rouge["lead_3"] == ["40.34", "17.7", "36.57"]


@pytest.mark.parametrize("scale", ["smoke", "cpu"])
def test_rows_differ_in_the_settings_of_their_names(naming, see, scale):
    study, _ = naming
    models = {row.id: configuration(study, scale, row).resolved["model"] for row in study.rows if row.scales is None}
    copy, conv = models["copy_attention"], models["conv_attention"]
    assert {key for key in copy if copy[key] != conv[key]} == {"kind"}
    assert models["attention"]["kind"] == "pointer_generator" and not models["attention"]["copies"]
    configs = {row.id: configuration(see, scale, row).resolved for row in see.rows if row.scales is None}
    said = {id: (c["model"]["copies"], c["model"]["coverage"], c["task"]["kind"]) for id, c in configs.items()}
    assert said == {
        "attention": (False, False, "translation"), "pointer_generator": (True, False, "translation"),
        "coverage": (True, True, "coverage"),
    }  # fmt: skip


def parameters(config):
    parts = build_experiment(config)
    return {name: x.size for name, x in abstract(lambda rngs: parts.model(rngs=rngs))[1].items()}


def test_the_papers_sizes_are_counted(naming, see):
    """D 128, k1 32, k2 16, windows 18, 19, 2.

    See et al. 2017, section 5: 21,499,600 weights; pointing adds 1,153 and coverage 512.
    """
    row = next(row for row in naming[0].rows if row.id == "copy_attention")
    own = parameters(configuration(naming[0], "gpu", row))
    body = {name: size for name, size in own.items() if not name.startswith(("vocabulary.", "cell."))}
    assert sum(body.values()) == 18 * 128 * 32 + 32 + 19 * 32 * 16 + 16 + 3 * 2 * 16 + 16 + 1
    assert own["cell.input_kernel"] + own["cell.state_kernel"] == 3 * 16 * (128 + 16)
    rows = [row for row in see.rows if row.scales is None]
    count = {row.id: sum(parameters(configuration(see, "paper", row)).values()) for row in rows}
    assert count == {"attention": 21_499_600, "pointer_generator": 21_500_753, "coverage": 21_501_265}


def scores(f1, exact, oov, **more):
    return {"measure.f1": f1, "measure.exact_match": exact, "measure.oov_accuracy": oov, **more}


def judged(naming, claim, numbers):
    study, module = naming
    return study.verdicts[claim](results_of(numbers, scale="cpu"))


def test_copying_is_judged_by_three_scores(naming):
    better, worse = scores([30.0, 30.1], [9.0, 9.1], [20.0, 20.1]), scores([20.0, 20.1], [3.0, 3.1], [0.0, 0.1])
    claim = "copy-head-beside-regular"
    assert judged(naming, claim, {"copy_attention": better, "conv_attention": worse}).status == HELD
    assert judged(naming, claim, {"copy_attention": worse, "conv_attention": better}).status == FAILED
    mixed = {**worse, "measure.oov_accuracy": [20.0, 20.1]}
    found = judged(naming, claim, {"copy_attention": mixed, "conv_attention": worse})
    assert found.status == FAILED and found.because.startswith("1 of 3 cases holds; F1: f1 20")
    assert judged(naming, claim, {"copy_attention": better, "conv_attention": {}}).status == UNTESTED


@pytest.mark.parametrize(
    ("copied", "invented", "end", "status"),
    [
        ([0.9, 0.8], [0.2, 0.3], [0.1, 0.1], HELD),
        ([0.4, 0.45], [0.2, 0.3], [0.1, 0.1], FAILED),
        ([0.9, 0.8], [0.6, 0.3], [0.1, 0.1], FAILED),
        ([0.9, 0.2], [0.2, 0.3], [0.1, 0.1], FAILED),
    ],
)
def test_lambda_is_judged_by_its_halves(naming, copied, invented, end, status):
    keys = {"copied": copied, "invented": invented, "end": end, "auc": [0.8, 0.8]}
    numbers = {"copy_attention": {f"measure.lambda_{name}": values for name, values in keys.items()}}
    assert judged(naming, "copy-lambda-separates", numbers).status == status
    assert judged(naming, "copy-lambda-separates", {"copy_attention": {}}).status == UNTESTED


TABLE = {
    "place": "a.py:1", "body": "self use cache", "name": "set cache", "wrote": ["set", "END"],
    "alpha": [[0.2, 0.3, 0.5]] * 2, "kappa": [[0.1, 0.1, 0.8]] * 2, "lambda": [0.25, 0.05],
}  # fmt: skip


def test_the_table_is_drawn_and_judged(naming, tmp_path):
    found = results_of({"copy_attention": {"measure.tables": [[TABLE, TABLE]]}}, scale="cpu")
    study, module = naming
    figure = module.draw_tables(found, tmp_path)
    assert figure.path.stat().st_size > 10_000 and "a.py:1: set lambda 0.250 kappa cache" in figure.alt
    verdict = study.verdicts["copy-naming-table"](found)
    assert verdict.status == FIGURE and "set 0.012; use 0.974" in verdict.because and "set 0.250" in verdict.because
    none = results_of({"copy_attention": {"measure.f1": [1.0]}}, scale="cpu")
    assert module.draw_tables(none, tmp_path) is None
    assert study.verdicts["copy-naming-table"](none).status == UNTESTED


def test_pointing_and_coverage_are_judged(see):
    row = lambda f1, oov, repeated: {
        "measure.f1": [f1, f1 + 0.1], "measure.oov_accuracy": [oov, oov + 0.1], "measure.repeated": [repeated] * 2
    }  # fmt: skip
    rows = {"attention": row(2, 0.0, 9.0), "pointer_generator": row(6, 3.0, 9.0), "coverage": row(6, 3.0, 4.0)}
    found = {claim: verdict(results_of(rows, scale="cpu")).status for claim, verdict in see.verdicts.items()}
    assert set(found.values()) == {HELD}
    rows |= {"pointer_generator": row(6, 0.0, 3.0)}
    found = {claim: verdict(results_of(rows, scale="cpu")).status for claim, verdict in see.verdicts.items()}
    assert list(found.values()) == [FAILED, FAILED]
