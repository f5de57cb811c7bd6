"""Sweeps: how ``--over`` is read, which rows it makes; the recorded studies resolve at every scale."""

import re

import pytest

from attention_research.config import ConfigError, load
from attention_research.config.lists import parse_over
from attention_research.studies import find_studies, load_study
from attention_research.studies.sweep import sweep_study
from attention_research.studies.trials import plan

CONFIG = "configs/translation/transformer.py:smoke"


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        ("model.num_heads=1,4,8", "model.num_heads", ["1", "4", "8"]),
        ("config.training.seed=3", "training.seed", ["3"]),
        ("a.steps=(1, 2),((3,), 4)", "a.steps", ["(1, 2)", "((3,), 4)"]),
        ("a.b='x,y', \"z=,\"", "a.b", ["'x,y'", '"z=,"']),
        ("a.b=[1,2],{3:4,5:6}", "a.b", ["[1,2]", "{3:4,5:6}"]),
    ],
)
def test_over_is_a_path_and_values(text, path, values):
    assert parse_over(text) == (path, values)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model.num_heads", "--over model.num_heads: expected PATH=VALUE,VALUE, such as model.num_heads=1,4,8"),
        ("=1,2", "--over =1,2: expected PATH=VALUE,VALUE, such as model.num_heads=1,4,8"),
        ("a=1,,2", "--over a=1,,2: a has an empty value"),
        ("a=", "--over a=: a has an empty value"),
        ("a=1,1", "--over a=1,1: a value of a is given twice"),
        ("a=(1,2", "--over a=(1,2: ')' is missing"),
        ("a=1),2", "--over a=1),2: ')' closes nothing"),
    ],
)
def test_a_wrong_over_is_one_line(text, line):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        parse_over(text)


def test_rows_are_the_product_named_by_what_they_set(root, monkeypatch):
    monkeypatch.chdir(root)
    study = sweep_study(CONFIG, ["model.num_heads=1,4", "model.self_attention.kind=standard,unscaled"], seeds=2)
    assert [row.name for row in study.rows] == [
        "num_heads=1, self_attention=standard",
        "num_heads=1, self_attention=unscaled",
        "num_heads=4, self_attention=standard",
        "num_heads=4, self_attention=unscaled",
    ]
    assert len({row.id for row in study.rows}) == 4
    trials = plan(study, "sweep", list(study.rows), 2, "sources")
    assert [(t.given["model"]["num_heads"], t.given["training"]["seed"]) for t in trials[:3]] == [
        (1, 0),
        (1, 1),
        (1, 0),
    ]
    assert len({trial.id for trial in trials}) == 8


def test_paths_that_end_alike_are_told_apart():
    study = sweep_study(CONFIG, ["model.encoder.num_layers=1,2", "model.decoder.num_layers=1"])
    assert study.rows[1].name == "encoder.num_layers=2, decoder.num_layers=1"


@pytest.mark.parametrize(
    ("over", "overrides", "line"),
    [
        ([], (), "sweep: needs at least one --over PATH=VALUE,VALUE"),
        (["a=1", "a=2"], (), "--over a: given twice"),
        (["a=1"], (("a", "3"),), "--over a: is also set by --config.a"),
    ],
)
def test_a_sweep_that_contradicts_itself_is_refused(over, overrides, line):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        sweep_study(CONFIG, over, overrides=overrides)


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [True, False], ids=["cpu", "the others"])
def test_every_recorded_study_resolves_at_every_scale(cpu, root, monkeypatch):
    monkeypatch.chdir(root)
    assert {"ablation/attention", "ablation/length"} <= set(find_studies())
    for name in find_studies():
        study = load_study(name)
        for scale in (one for one in study.scales if (one == "cpu") is cpu):
            trials = plan(study, scale, study.rows_at(scale), 1, "sources")
            assert len(trials) == len(study.rows_at(scale)) * max(1, len(study.scales[scale].points))


def test_a_trial_is_its_settings_and_not_its_name(root, monkeypatch):
    monkeypatch.chdir(root)
    study = load_study("ablation/attention")
    ids = {(t.row, t.seed): t.id for t in plan(study, "cpu", study.rows_at("cpu"), 2, "sources")}
    assert ids["standard", 0] == ids["heads_4", 0] != ids["standard", 1]
    assert ids["linformer_16", 0] == ids["linformer_headwise", 0] != ids["linformer_none", 0]
    again = {(t.row, t.seed): t.id for t in plan(study, "cpu", study.rows_at("cpu"), 2, "other")}
    assert again == ids


def test_the_ablation_takes_parts_out_of_the_steps_that_its_configurations_have(root, monkeypatch):
    monkeypatch.chdir(root)
    study = load_study("ablation/attention")
    module = __import__("sys").modules[study.verdicts["necessary-parts"].__module__]
    for variant in ("smoke", "quick", "cpu", "vaswani_base"):
        model = load(f"configs/translation/transformer.py:{variant}").resolved["model"]
        assert model["encoder"]["steps"] == [list(branch) for branch in module.ENCODER_STEPS]
        assert model["decoder"]["steps"] == [list(branch) for branch in module.DECODER_STEPS]
        assert not model["encoder"]["final_norm"] and not model["decoder"]["final_norm"]
    assert module.without("norm")["model.encoder.steps"] == (
        ("self_attention", "dropout", "residual"),
        ("feed_forward", "dropout", "residual"),
    )
    assert module.without("feed_forward")["model.encoder.steps"] == (("self_attention", "dropout", "residual", "norm"),)
