"""`lectures/normalization`: exact measures, every row's config, verdicts by hand."""

import math

import pytest
from results_of import clear_cases, declared, measured, results_of

from attention_research.experiments.lectures.normalization.amplification import ACTIVATIONS
from attention_research.studies.comparisons import CLEAR
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "lectures/normalization"


def listed(numbers):
    return {row: {f"measure.{name}": values for name, values in columns.items()} for row, columns in numbers.items()}


def judged(study, claim, rows, **made):
    return study.verdicts[claim](declared(study, results_of(rows, **made, settings={"gains": (1.0, 2.0)})))


def test_every_row_has_the_norm_that_its_name_says(study):
    kinds = {"simple": "layer_norm_simple", "detached": "detach_norm", "rms": "rms_norm"}
    for scale in ("smoke", "cpu"):
        for row in study.rows_at(scale):
            if len(row.stages) > 1:
                config = configuration(study, scale, row).resolved
                first = row.id.split("_")[0]
                steps = config["model"]["decoder"]["steps"]
                assert config["model"]["norm"]["kind"] == kinds.get(first, "layer_norm")
                place = {"none": None, "post": 3}.get(first, 0)
                assert [branch.index("norm") if "norm" in branch else None for branch in steps] == [place] * 2
                assert (config["training"]["schedule"]["warmup_steps"] == 0) == row.id.endswith("no_warmup")


def test_only_the_right_formula_gives_mean_0_and_deviation_1(study):
    sizes = {"width": 64, "samples": 32, "scales": (0.1, 1.0, 100.0)}
    rows = {f"formula_{slip}": measured(study, f"formula_{slip}", **sizes) for slip in ("right", "sum", "root", "both")}
    lists = {row: {name: [value] for name, value in found.items()} for row, found in rows.items()}
    found = judged(study, "layernorm-formula", listed(lists))
    assert found.status == HELD and len(clear_cases(found)) == 4
    assert rows["formula_root"]["spread"] == pytest.approx(1000**0.5, rel=0.02)
    swapped = {**lists, "formula_right": lists["formula_root"]}
    assert judged(study, "layernorm-formula", listed(swapped)).status == FAILED


@pytest.mark.slow
def test_other_samples_affect_batch_norm_only(study):
    sizes = {"width": 16, "batch_sizes": (2, 8), "draws": 4}
    rows = {f"batch_{norm}": measured(study, f"batch_{norm}", **sizes) for norm in ("layer_norm", "batch_norm")}
    assert rows["batch_layer_norm"]["change"] == 0 and min(rows["batch_batch_norm"]["changes"]) > 0.1
    lists = {row: {name: [value] for name, value in found.items()} for row, found in rows.items()}
    assert judged(study, "layernorm-against-batchnorm", listed(lists)).status == HELD
    lists["batch_layer_norm"]["change"] = [1e-3]
    assert judged(study, "layernorm-against-batchnorm", listed(lists)).status == FAILED


def test_the_error_by_batch_size_is_reported_with_the_exact_verdict(study):
    sizes = {"width": 16, "batch_sizes": (2, 8), "draws": 4}
    rows = {f"batch_{norm}": measured(study, f"batch_{norm}", **sizes) for norm in ("layer_norm", "batch_norm")}
    lists = {row: {name: [value] for name, value in found.items()} for row, found in rows.items()}
    told = judged(study, "layernorm-against-batchnorm", listed(lists))
    assert told.sentences[-1] == "not tested: loss by batch size"
    lists["loss_batch_norm"] = {"losses": [[0.75, 0.25], [0.85, 0.35]]}
    told = judged(study, "layernorm-against-batchnorm", listed(lists))
    assert told.sentences[-1] == "error by batch size with batch_norm: 0.8, 0.3"


def trained(**perplexities):
    """Three seeds for each row, with a unigram perplexity of 100."""
    return {row: {"evaluate.perplexity": [0.99 * value, value, 1.01 * value],
                  "evaluate.unigram_perplexity": [100.0] * 3} for row, value in perplexities.items()}  # fmt: skip


def test_gradients_matter_if_little_of_the_gain_is_left_when_they_are_detached(study):
    judge = lambda **values: judged(study, "layernorm-normalises-gradients", trained(**values))
    assert judge(none=80, layer_norm=40, detached=70).status == HELD
    part = judge(none=80, layer_norm=40, detached=50)
    assert part.status == FAILED and "75% of the gain remains" in part.because
    assert judge(none=80, layer_norm=40, detached=40).status == FAILED
    assert judge(none=40, layer_norm=40, detached=70).status == FAILED
    assert judge(none=80, layer_norm=40).status == UNTESTED
    assert judge(none=math.nan, layer_norm=40, detached=50).status == FAILED
    assert judge(none=80, layer_norm=40, detached=math.nan).status == HELD


def test_gain_and_bias_may_cost_nothing_or_a_slight_share(study):
    tight = {row: {"evaluate.perplexity": [value, value + 0.01, value + 0.02]} for row, value in
             (("layer_norm", 50.0), ("simple", 50.2), ("poor", 60.0))}  # fmt: skip
    judge = lambda row: judged(
        study, "layernorm-gain-bias-optional", {"layer_norm": tight["layer_norm"], "simple": tight[row]}
    )
    assert judge("layer_norm").status == HELD and "margin 1% over 3 seeds" in judge("layer_norm").because
    assert judge("simple").status == HELD and judge("poor").status == FAILED
    assert "reversed" in judge("poor").because


def test_faster_means_that_every_seed_is_at_the_set_loss_before_any_without(study):
    target = math.log(100) - 1.0

    def judge(ours, theirs):
        curve = lambda step: [[10.0, 6.0], [float(step), target - 0.01 if step < 400 else 6.0]]
        curves = {"layer_norm": [curve(step) for step in ours], "none": [curve(step) for step in theirs]}
        return judged(study, "layernorm-trains-faster", trained(layer_norm=40, none=80), curves=curves)

    won = judge((50, 60, 50), (200, 210, 400))
    assert won.status == UNTESTED and "2 of 3 seeds" in won.because  # the other rates are missing
    assert won.cases["rate of the config"].outcome == CLEAR
    assert judge((50, 60, 210), (200, 210, 220)).status == FAILED


def changes(**growth):
    """Row -> three seeds of (amplified, range) by gain."""
    return listed({f"changes_{row}": {"last_amplified": [[1.0, amplified]] * 3, "growth": [[0.5, ranged]] * 3}
                   for row, (amplified, ranged) in growth.items()})  # fmt: skip


def test_small_changes_are_judged_by_activation_and_gain(study):
    judge = lambda **growth: judged(study, "small-changes-amplified", changes(**growth))
    assert judge(tanh=(9.0, 50.0)).status == HELD and judge(tanh=(1.0, 1.0)).status == FAILED
    parts = judge(tanh=(9.0, 1.0), relu=(1.0, 500.0))
    assert parts.status == FAILED
    assert "amplified: tanh at gain 2; huge range: relu at gain 2; both: none" in parts.because
    assert judge(tanh=(9.0, None)).status == HELD


def test_layer_norm_has_to_stop_what_grows_begin_nothing_and_be_sooner(study):
    target = math.log(100) - 1.0

    def judge(theirs=300, **growth):
        curves = {row: [[[float(at), target]]] * 3 for row, at in (("layer_norm", 50), ("none", theirs))}
        names = [f"{name}{norm}" for name in ACTIVATIONS for norm in ("", "_norm")]
        rows = {**changes(**{**dict.fromkeys(names, (1.0, 1.0)), **growth}), **trained(layer_norm=40, none=80)}
        rows = {name: found for name, found in rows.items() if name not in missing}
        return judged(study, "layernorm-stops-amplification", rows, curves=curves)

    missing = ()
    assert judge(tanh=(9.0, 1.0), tanh_norm=(1.0, 1.0)).status == HELD
    missing = ("changes_gelu_norm",)
    assert judge(tanh=(9.0, 1.0), tanh_norm=(1.0, 1.0)).status == UNTESTED
    missing = ()
    later = judge(50, tanh=(9.0, 1.0), tanh_norm=(1.0, 1.0))
    assert later.status == FAILED and clear_cases(later) == ["change, tanh at gain 2"]
    begun = judge(tanh=(9.0, 1.0), tanh_norm=(1.0, 1.0), gelu=(1.0, 1.0), gelu_norm=(3.0, 1.0))
    assert begun.status == FAILED and clear_cases(begun) == ["change, tanh at gain 2", "steps"]
    assert judge(tanh=(9.0, 1.0), tanh_norm=(5.0, 1.0)).status == FAILED
    assert judge(tanh=(1.0, 1.0), tanh_norm=(1.0, 1.0)).status == UNTESTED
