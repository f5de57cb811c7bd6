"""Vaswani et al. 2017: the rows of its tables, counted at the paper's sizes, against the published cells."""

import csv
import dataclasses
import json
import sys

import pytest
from results_of import results_of

from attention_research.cli import main
from attention_research.config import ConfigError, build_experiment, resolve
from attention_research.layers.structure import abstract
from attention_research.studies import inspect_study, load_study
from attention_research.studies.results import collect
from attention_research.studies.tables import table
from attention_research.studies.trial_folders import Folder
from attention_research.studies.trials import configuration, plan
from attention_research.studies.verdicts import FAILED, HELD, judge
from tests.tiers import fast_are


@pytest.fixture(scope="module")
def table3(root):
    """(study, row id -> its configuration at the paper's sizes, row id -> the published cells)."""
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_inspect_gives_both_counts_beside_the_printed_cell():
    (base,) = inspect_study("vaswani2017/table3", scale="paper", rows=["base"])
    assert base["parameters"] - base["parameters_at_37000"] == (40_960 - 37_000) * 512
    assert base["published"]["parameters M"] == "65" and base["published"]["perplexity"] == "4.92"


@pytest.mark.slow
def test_training_cost_has_both_definitions():
    """Machine time by hand. Model FLOPs are near 6 x parameters x tokens of a side, over 100K updates."""
    rows = {row["id"]: row for row in inspect_study("vaswani2017/table2", scale="paper", rows=["base", "gnmt"])}
    base = rows["base"]
    assert base["machine"] == pytest.approx(12 * 3600 * 8 * 9.5e12) and f"{base['machine']:.1e}" == "3.3e+18"
    tokens = 96 * 256  # per side: source tokens for the encoder, targets for decoder and output
    assert base["model"] == pytest.approx(6 * base["parameters"] * tokens * base["steps"], rel=0.25)
    assert rows["gnmt"]["parameters"] is None and rows["gnmt"]["published"]["FLOPs En-De"] == "2.3e19"


def test_both_printed_scores_of_big_are_there(root):
    with open(root / "experiments/vaswani2017/table2.csv", newline="") as file:
        printed = {line["row"]: line["BLEU En-Fr"] for line in csv.DictReader(file)}
    assert printed["big"] == "41.8" and printed["big_early"] == "41.0" and len(printed) == 11


@pytest.mark.parametrize("scale", ["smoke", "cpu", "gpu"])
def test_smaller_scales_keep_the_proportions(table3, scale):
    """20 different configurations, each with the paper's change in the same ratio."""
    study, papers, _ = table3
    ours = {row.id: configuration(study, scale, row) for row in study.rows}
    assert len({config.identity for config in ours.values()}) == 20
    for key in ("num_layers", "width", "num_heads"):
        ratio = lambda configs, row, key=key: (
            configs[row].resolved["model"][key] / configs["base"].resolved["model"][key]
        )
        for row in papers:
            assert ratio(ours, row) == pytest.approx(ratio(papers, row)), (row, key)


def judged(study, scale, claim):
    """The verdict on a claim that needs no trial."""
    found = dataclasses.replace(results_of({"base": {"train.loss": [1.0, 1.1]}}, scale=scale), study=study)
    return next(one for one in judge(found) if one.id == claim)


@pytest.mark.slow
def test_the_sizes_of_base_and_big_are_judged(table3):
    """base has the claimed and published size. big has the claimed size, but no reading gives the published one."""
    study, configs, _ = table3
    verdict = judged(study, "cpu", "transformer-base-sizes")
    assert verdict.status == HELD and verdict.judged
    assert verdict.verdict.because.startswith("the count of big differs from the published one")
    for row in ("base", "big"):
        assert f"{formula(configs[row]):,} parameters with 40,960" in verdict.verdict.because
    assert "6 + 6 blocks of width 512 with 8 heads" in verdict.verdict.because and "213M" in verdict.verdict.because
    halved = dataclasses.replace(study.scale("paper"), overrides={**study.scale("paper").overrides, "model.width": 256})
    other = dataclasses.replace(study, scales={**study.scales, "paper": halved})
    assert judged(other, "cpu", "transformer-base-sizes").status == FAILED


def pre_norm(*branches):
    return tuple(("norm", branch, "dropout", "residual") for branch in branches)


POST = ("dropout", "residual", "norm")
OTHER_ORDERS = {
    "pre-norm": {
        "model.encoder": {"steps": pre_norm("self_attention", "feed_forward"), "final_norm": True},
        "model.decoder": {
            "steps": pre_norm("self_attention", "cross_attention", "feed_forward"),
            "final_norm": True,
        },
    },
    "no cross-attention": {"model.decoder.steps": (("self_attention", *POST), ("feed_forward", *POST))},
    "cross-attention first": {
        "model.decoder.steps": (("cross_attention", *POST), ("self_attention", *POST), ("feed_forward", *POST))
    },
    "no residual": {
        "model.encoder.steps": (("self_attention", "dropout", "norm"), ("feed_forward", "dropout", "residual", "norm"))
    },
    "no mask": {"model.decoder.self_attention": {"kind": "unmasked"}},
    "no positions": {"model.positions": {"kind": "none"}},
    "a norm after the stack": {"model.encoder.final_norm": True},
    "a lower decoder": {"model.decoder": {"num_layers": 1}},
    "no encoder": {"model.kind": "transformer_decoder"},
}


@pytest.fixture(scope="module")
def base_in_other_orders(root):
    """(module of table3, the base configuration at `smoke`)."""
    study = load_study("vaswani2017/table3", root / "experiments")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        base = next(row for row in study.rows if row.id == "base")
        return sys.modules[study.verdicts["transformer-architecture-figure"].__module__], configuration(
            study, "smoke", base
        )


def test_the_base_model_is_the_drawn_one(table3):
    verdict = judged(table3[0], "paper", "transformer-architecture-figure")
    assert verdict.status == HELD and verdict.verdict.because.count("6 x | ") == 2
    assert "cross_attention (StandardAttention, reads the encoder's output)" in verdict.verdict.because


NAMES = {name.replace(" ", "-"): name for name in OTHER_ORDERS}


@pytest.mark.parametrize("change", fast_are(["pre-norm", "cross-attention-first", "no-mask"], NAMES))
def test_another_architecture_is_not_the_drawn_one(base_in_other_orders, change):
    table3, base = base_in_other_orders
    changes = OTHER_ORDERS[change]
    given = base.given
    if "model.kind" in changes:
        kept = {key: base.resolved["model"][key] for key in ("num_layers", "width", "num_heads", "feed_forward")}
        given = {**given, "model": {**kept, "kind": changes["model.kind"]}}
    config = resolve(given, [(path, value) for path, value in changes.items() if path != "model.kind"])
    verdict = table3.drawn_order(config)
    assert verdict.status == FAILED and table3.drawn_order(base).status == HELD


#: Table 4 by value: parser, training data, F1 on section 23.
TABLE_4 = [
    ("vinyals", "WSJ only", 88.3), ("petrov", "WSJ only", 90.4), ("zhu", "WSJ only", 90.4), ("dyer", "WSJ only", 91.7),
    ("transformer", "WSJ only", 91.3), ("zhu_semi", "semi-supervised", 91.3), ("huang_semi", "semi-supervised", 91.3),
    ("mcclosky_semi", "semi-supervised", 92.1), ("vinyals_semi", "semi-supervised", 92.1),
    ("transformer_semi", "semi-supervised", 92.7), ("luong", "multi-task", 93.0),
    ("dyer_generative", "generative", 93.3),
]  # fmt: skip
TRAINED = ["transformer", "layers_2", "layers_1"]


@pytest.fixture(scope="module")
def table4(root):
    return load_study("vaswani2017/table4", root / "experiments")


def test_the_printed_parsers(root, table4):
    with open(root / "experiments/vaswani2017/table4.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(x["row"], x["training"].split(",")[0], float(x["WSJ 23 F1"])) for x in lines] == TABLE_4
    assert all("Table 4" in line["source"] for line in lines)
    assert [row.id for row in table4.rows if row.scales != ("smoke", "cpu")] == [row for row, _, _ in TABLE_4]


def test_parsers_that_are_not_run_are_marked_in_the_table(tmp_path, table4):
    trials = plan(table4, "cpu", table4.rows_at("cpu"), 2, "sources")
    assert list(dict.fromkeys(trial.row for trial in trials)) == TRAINED
    titles, *lines = table(collect(table4, "cpu", trials, Folder(tmp_path)))
    assert len(lines) == 14 and "F1 (generated trees; WSJ at `paper`)" in titles
    printed, notes = titles.index("published WSJ 23 F1"), titles.index("notes")
    said = {row.id: (line[printed], line[notes]) for row, line in zip(table4.rows, lines, strict=True)}
    assert {row: float(cell) for row, (cell, _) in said.items() if cell} == {row: f1 for row, _, f1 in TABLE_4}
    assert said["dyer"][1] == "published numbers only; published in arXiv 1706.03762 Table 4"
    assert said["transformer_semi"][1].startswith("not run at cpu; published in")
    assert said["transformer"][1].startswith("not run; published in") and said["layers_1"] == ("", "not run")
    with pytest.raises(ConfigError, match="^row 'dyer' of vaswani2017/table4 has published numbers only"):
        table4.rows_at("cpu", ["dyer"])


@pytest.mark.slow
def test_the_papers_parser_is_counted(table4):
    """4 layers of width 1024, 16K and 32K tokens, decoding of section 6.3. Nothing is counted for other parsers."""
    rows = {row["id"]: row for row in inspect_study("vaswani2017/table4", scale="paper")}
    assert list(rows) == [row for row, _, _ in TABLE_4] and rows["dyer"]["parameters"] is None
    for row, pieces in (("transformer", 16_000), ("transformer_semi", 32_000)):
        config = configuration(table4, "paper", next(one for one in table4.rows if one.id == row))
        model, decoding = config.resolved["model"], config.resolved["decoding"]
        assert (model["num_layers"], model["width"], config.resolved["vocabulary_size"]) == (4, 1024, pieces)
        assert [decoding[k] for k in ("kind", "beam_size", "alpha", "extra_length")] == ["beam", 21, 0.3, 300]
        assert rows[row]["parameters"] == formula(config)


def test_without_the_treebank_the_papers_parser_is_refused(tmp_path, capsys):
    assert main(["reproduce", "vaswani2017/table4", "--scale=paper", f"--workdir={tmp_path}"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: config.data.train: no such file: wsj/02-21.words")


@pytest.mark.long
def test_the_generated_trees_are_parsed_at_smoke(tmp_path, in_process, capsys):
    """Every trained row decodes and is scored by brackets. Nothing is learned in four steps, and the table says so."""
    assert main(["reproduce", "vaswani2017/table4", "--scale=smoke", f"--workdir={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    trials = [json.loads(path.read_text()) for path in tmp_path.glob("trials/*/result.json")]
    assert sorted(trial["row"] for trial in trials) == sorted(TRAINED)
    for trial in trials:
        scores = trial["stages"]["evaluate"]
        assert scores["sentences"] == 16 and 0 <= scores["f1"] < scores["flat_f1"] < 60
    count = {trial["row"]: trial["stages"]["inspect"]["parameters"] for trial in trials}
    assert count["transformer"] > count["layers_2"] > count["layers_1"]
    assert printed.count("no better than a baseline: ") == 1 and "F1 not above one bracket's" in printed
    assert ": published numbers only\n" in printed
