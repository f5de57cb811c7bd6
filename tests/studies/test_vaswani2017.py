"""Vaswani et al. 2017: the rows of its tables, counted at the paper's sizes, against the printed cells."""

import csv

import pytest

from attention_research.config import build_experiment
from attention_research.layers.structure import abstract
from attention_research.studies import inspect_study, load_study
from attention_research.studies.trials import configuration


@pytest.fixture(scope="module")
def table3(root):
    """(study, row id -> its configuration at the paper's sizes, row id -> the printed cells)."""
    study = load_study("vaswani2017/table3", root / "experiments")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        configs = {row.id: configuration(study, "paper", row) for row in study.rows}
    with open(root / "experiments/vaswani2017/table3.csv", newline="") as file:
        printed = {line["row"]: line for line in csv.DictReader(file)}
    return study, configs, printed


def formula(config):
    """Parameters by the paper's equations: attention A, feed-forward F, layer norms, one tied embedding, positions."""
    model = config.resolved["model"]
    d, h, n = model["width"], model["num_heads"], model["num_layers"]
    hidden = model["feed_forward"]["hidden_width"]
    key = model["head_width"] or d // h
    value = model["self_attention"].get("value_head_width") or key
    attention = 2 * (d * h * key + h * key) + (d * h * value + h * value) + (h * value * d + d)
    feed_forward = d * hidden + hidden + hidden * d + d
    learned = 2 * config.resolved["max_length"] * d if model["positions"]["kind"] == "learned" else 0
    norms = (2 + 3) * n * 2 * d
    return config.resolved["vocabulary_size"] * d + 3 * n * attention + 2 * n * feed_forward + norms + learned


def test_every_row_has_the_formulas_parameters_and_ten_of_eleven_cells_round(table3):
    _, configs, printed = table3
    assert len(configs) == 20 and configs.keys() == printed.keys()
    fits = {}
    for row, config in configs.items():
        assert config.resolved["vocabulary_size"] == 40_960
        parts = build_experiment(config)
        ours = sum(x.size for x in abstract(lambda rngs, parts=parts: parts.model(rngs=rngs))[1].values())
        assert ours == formula(config), row
        if printed[row]["parameters M"]:
            fits[row] = round(ours / 1e6) == int(printed[row]["parameters M"])
    assert len(fits) == 11 and [row for row, fit in fits.items() if not fit] == ["big"]


def test_each_row_changes_what_its_name_says(table3):
    _, configs, _ = table3
    base = configs["base"].resolved
    changed = {row: config.resolved["model"] for row, config in configs.items()}
    for row, (key, value) in {
        "heads_1": ("num_heads", 1), "heads_4": ("num_heads", 4), "heads_16": ("num_heads", 16),
        "heads_32": ("num_heads", 32), "key_16": ("head_width", 16), "key_32": ("head_width", 32),
        "layers_2": ("num_layers", 2), "layers_4": ("num_layers", 4), "layers_8": ("num_layers", 8),
        "width_256": ("width", 256), "width_1024": ("width", 1024), "dropout_0": ("dropout_rate", 0.0),
        "dropout_0.2": ("dropout_rate", 0.2),
    }.items():  # fmt: skip
        assert changed[row][key] == value != base["model"][key], row
    assert [changed[row]["feed_forward"]["hidden_width"] for row in ("hidden_1024", "hidden_4096")] == [1024, 4096]
    assert [configs[f"smoothing_{x}"].resolved["task"]["label_smoothing"] for x in ("0", "0.2")] == [0.0, 0.2]
    big = configs["big"].resolved
    assert (big["model"]["width"], big["model"]["num_heads"], big["model"]["dropout_rate"]) == (1024, 16, 0.3)
    assert big["training"]["steps"] == 300_000 and base["training"]["steps"] == 100_000
    assert base["evaluation"]["split"] == "validation"


def test_inspect_gives_both_counts_beside_the_printed_cell(root, monkeypatch):
    monkeypatch.chdir(root)
    (base,) = inspect_study("vaswani2017/table3", scale="paper", rows=["base"])
    assert base["parameters"] - base["parameters_at_37000"] == (40_960 - 37_000) * 512
    assert base["published"]["parameters M"] == "65" and base["published"]["perplexity"] == "4.92"


def test_training_cost_has_both_definitions(root, monkeypatch):
    """Machine time by hand; model FLOPs near 6 x parameters x tokens of a side, over 100K updates."""
    monkeypatch.chdir(root)
    rows = {row["id"]: row for row in inspect_study("vaswani2017/table2", scale="paper", rows=["base", "gnmt"])}
    base = rows["base"]
    assert base["machine"] == pytest.approx(12 * 3600 * 8 * 9.5e12) and f"{base['machine']:.1e}" == "3.3e+18"
    tokens = 96 * 256  # a side; the encoder's parameters meet source tokens, the decoder's and the output's targets
    assert base["model"] == pytest.approx(6 * base["parameters"] * tokens * base["steps"], rel=0.25)
    assert rows["gnmt"]["parameters"] is None and rows["gnmt"]["published"]["FLOPs En-De"] == "2.3e19"


def test_both_printed_scores_of_big_are_there(root):
    with open(root / "experiments/vaswani2017/table2.csv", newline="") as file:
        printed = {line["row"]: line["BLEU En-Fr"] for line in csv.DictReader(file)}
    assert printed["big"] == "41.8" and printed["big_early"] == "41.0" and len(printed) == 11


@pytest.mark.parametrize("scale", ["smoke", "cpu", "gpu"])
def test_smaller_scales_keep_the_proportions(root, monkeypatch, table3, scale):
    """20 different configurations, each the paper's change in the same ratio."""
    monkeypatch.chdir(root)
    study, papers, _ = table3
    ours = {row.id: configuration(study, scale, row) for row in study.rows}
    assert len({config.identity for config in ours.values()}) == 20
    for key in ("num_layers", "width", "num_heads"):
        ratio = lambda configs, row, key=key: (
            configs[row].resolved["model"][key] / configs["base"].resolved["model"][key]
        )
        for row in papers:
            assert ratio(ours, row) == pytest.approx(ratio(papers, row)), (row, key)
