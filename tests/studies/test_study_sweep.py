"""Sweeps: how ``--over`` is parsed, which rows it makes. The recorded studies resolve at every scale."""

import re

import pytest

from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.config.value_lists import parse_over
from attention_research.studies import find_studies, load_study
from attention_research.studies.study import Row, Scale, Study
from attention_research.studies.sweep import sweep_study
from attention_research.studies.trials import configuration, plan

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
        ("a=1),2", "--over a=1),2: ')' has no opening bracket"),
    ],
)
def test_a_wrong_over_is_one_line(text, line):
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        parse_over(text)


def test_the_table_of_a_sweep_gives_its_whole_command():
    study = sweep_study(CONFIG, ["model.num_heads=1,4"], overrides=[("training.steps", "6")], seeds=2)
    given = f"--config={CONFIG} --config.training.steps=6 --over model.num_heads=1,4 --seeds=2"
    assert study.notes == (f"attention-research sweep {given}",)
    (told,) = sweep_study(CONFIG, ["model.num_heads=1,4"], seeds=2, replicas=True).notes
    assert told.endswith(" --seeds=2 --replicas")


def test_rows_are_the_product_named_by_what_they_set():
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
def test_every_recorded_study_resolves_at_every_scale(cpu):
    assert {"ablation/attention", "ablation/length"} <= set(find_studies())
    for name in find_studies():
        study = load_study(name)
        for scale in (one for one in study.scales if (one == "cpu") is cpu):
            trials = plan(study, scale, study.rows_at(scale), 1, "sources")
            assert len(trials) == len(study.rows_at(scale)) * max(1, len(study.scales[scale].points))


@pytest.mark.slow
def test_a_trial_is_its_settings_and_not_its_name():
    study = load_study("ablation/attention")
    ids = {(t.row, t.seed): t.id for t in plan(study, "cpu", study.rows_at("cpu"), 2, "sources")}
    assert ids["standard", 0] != ids["standard", 1]
    again = {(t.row, t.seed): t.id for t in plan(study, "cpu", study.rows_at("cpu"), 2, "other")}
    assert again == ids
    gpu = {(t.row, t.seed): t.id for t in plan(study, "gpu", study.rows_at("gpu"), 2, "sources")}
    assert gpu["linformer_16", 0] == gpu["linformer_headwise", 0] != gpu["linformer_none", 0]


def test_the_ablation_takes_parts_out_of_the_steps_that_its_configurations_have():
    study = load_study("ablation/attention")
    rows = {row.id: row for row in study.rows}
    for scale, recipe in (("cpu", rows["no_norm"].at["cpu"]), ("gpu", rows["no_norm"].overrides)):
        plain = configuration(study, scale, rows["standard"]).resolved["model"]
        for side in ("encoder", "decoder"):
            steps = [[step for step in branch if step != "norm"] for branch in plain[side]["steps"]]
            assert steps == [list(branch) for branch in recipe[f"model.{side}.steps"]]
            assert plain[side]["final_norm"] == (scale == "cpu") and not recipe[f"model.{side}.final_norm"]
    assert rows["no_norm"].at["cpu"]["model.encoder.steps"] == (
        ("self_attention", "dropout", "residual"),
        ("feed_forward", "dropout", "residual"),
    )
    assert rows["no_feed_forward"].overrides["model.encoder.steps"] == (
        ("self_attention", "dropout", "residual", "norm"),
    )


def test_the_ablation_at_cpu_has_the_trials_of_quick_and_more_rows():
    study = load_study("ablation/attention")
    trials = {scale: plan(study, scale, study.rows_at(scale), None, "sources") for scale in ("quick", "cpu")}
    quick, cpu = ({(trial.row, trial.seed): trial.id for trial in trials[scale]} for scale in ("quick", "cpu"))
    assert quick.items() <= cpu.items() and len(cpu) == len(quick) + 3 * (len(study.rows_at("cpu")) - 6)


def seeds_of(*over, seeds=1, replicas=False, overrides=()):
    """(row, seed, data seed) of the trials, whose ids are all different."""
    study = sweep_study(CONFIG, list(over), overrides=overrides, seeds=seeds, replicas=replicas)
    trials = plan(study, "sweep", list(study.rows), seeds, "sources")
    assert len({trial.id for trial in trials}) == len(trials)
    assert all(trial.seed == trial.given["training"]["seed"] for trial in trials)
    assert [trial.count for trial in trials] == [trial.repeat == 0 for trial in trials]
    return [(trial.name, trial.seed, trial.given["training"].get("data_seed")) for trial in trials]


def test_a_seed_that_was_given_is_trained():
    heads = "model.num_heads=1"
    assert seeds_of("training.seed=1,2") == [("seed=1", 1, None), ("seed=2", 2, None)]
    assert [s for _, s, _ in seeds_of(heads, overrides=[("training.seed", "5")])] == [5]
    assert [s for _, s, _ in seeds_of(heads, overrides=[("training.seed", "5")], seeds=3)] == [5, 6, 7]
    assert [s for _, s, _ in seeds_of(heads, seeds=2)] == [0, 1]


def test_replicas_see_the_batches_of_the_first_seed_or_those_that_were_asked_for():
    heads, given = "model.num_heads=1", [("training.seed", 5)]
    assert [x[1:] for x in seeds_of(heads, seeds=2, replicas=True)] == [(0, None), (1, 0)]
    assert [x[1:] for x in seeds_of("training.seed=0,2", replicas=True)] == [(0, None), (2, 0)]
    assert [x[1:] for x in seeds_of(heads, seeds=2, replicas=True, overrides=given)] == [(5, None), (6, 5)]
    given = [*given, ("training.data_seed", 9)]
    assert [x[1:] for x in seeds_of(heads, seeds=2, replicas=True, overrides=given)] == [(5, 9), (6, 9)]


def test_a_rows_own_seed_holds_in_a_study():
    """As planned by `reproduce`. Trials of rows without a seed keep their ids."""
    rows = (Row("plain", "plain"), Row("own", "own", {"training.seed": 7}), Row("again", "again"))
    study = Study(rows, {"cpu": Scale(CONFIG, seeds=2)}, name="a/b")
    trials = plan(study, "cpu", list(rows), 2, "sources")
    assert [(t.row, t.seed) for t in trials][:4] == [("plain", 0), ("plain", 1), ("own", 7), ("own", 8)]
    assert trials[0].id == trials[4].id and trials[0].identity == load(CONFIG, [("training.seed", 0)]).identity


def test_a_row_has_the_seeds_that_its_scale_says():
    rows = (Row("plain", "plain"), Row("most", "most", {"model.width": 12}))
    study = Study(rows, {"cpu": Scale(CONFIG, seeds=2, more_seeds={"most": 3})}, name="a/b")
    seeds = lambda count: [(t.row, t.seed) for t in plan(study, "cpu", list(rows), count, "sources")]
    assert seeds(None) == [("plain", 0), ("plain", 1), ("most", 0), ("most", 1), ("most", 2)]
    assert seeds(1) == [("plain", 0), ("most", 0)] and study.scale("cpu").most_seeds == 3
    with pytest.raises(ConfigError, match="^more_seeds of 'a/b': no row 'mst'; did you mean most"):
        Study(rows, {"cpu": Scale(CONFIG, more_seeds={"mst": 3})}, name="a/b")


def test_the_reference_of_a_scale_is_a_row():
    rows = (Row("plain", "plain"), Row("most", "most"))
    assert Study(rows, {"cpu": Scale(CONFIG, reference="plain")}).scale("cpu").reference == "plain"
    with pytest.raises(ConfigError, match="^reference of 'a/b': no row 'pln'; did you mean plain"):
        Study(rows, {"cpu": Scale(CONFIG, reference="pln")}, name="a/b")


@pytest.mark.parametrize(
    ("over", "options", "line"),
    [
        ("training.seed=1,2", ["--seeds=2"], "--seeds=2: --over training.seed gives the seeds of the rows"),
        ("training.log_every=1,2", [], "--over training.log_every: changes how a trial is run and not what it is"),
        ("parallel.mesh.data=1,2", [], "--over parallel.mesh.data: changes how"),
        ("training.replicas=1,2", ["--search=random", "--trials=2"], "--over training.replicas: changes how"),
        ("model.num_heads=1,2", ["--config.training.replicas=3"], "give --seeds=3 --replicas instead"),
        ("model.num_heads=1,2", ["--config.training.seed=2147483648"], "config.training.seed: expected an int from 0"),
        ("training.seed=2147483648", [], "config.training.seed: expected an int from 0 to 2147483647"),
        ("model.num_heads=1", ["--config.training.seed=2147483647", "--seeds=2"], "config.training.seed: expected"),
    ],
)
def test_duplicate_trials_and_missing_seeds_are_refused(over, options, line, tmp_path, capsys):
    words = ["sweep", f"--config={CONFIG}", "--over", over, f"--workdir={tmp_path / 'sweep'}", *options]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1 and not (tmp_path / "sweep").exists()
