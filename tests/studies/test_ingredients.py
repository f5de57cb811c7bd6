"""The studies of a Transformer's ingredients: claims have verdicts, rows have configs; verdicts by hand."""

import math

import pytest
from results_of import declared, measured, results_of

from attention_research.analysis.parameter_counts import shapes
from attention_research.studies.comparisons import REVERSED
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

SCHEMES = ("haviv2022/nopos", "haviv2022/probe", "press2022/extrapolation")
NAMES = (*SCHEMES, "lectures/positions", "lectures/heads")


def judged(study, claim, numbers, **settings):
    """The verdict's status and text, from numbers by row, with the study's own rows and the scale's settings."""
    return study.verdicts[claim](declared(study, results_of(numbers, settings=settings)))


@pytest.mark.parametrize("name", SCHEMES)
def test_every_row_resolves_at_every_scale(name, studies):
    for scale in studies[name].scales:
        for row in studies[name].rows_at(scale):
            model = configuration(studies[name], scale, row).resolved["model"]
            stack = model["encoder" if row.id.endswith("_masked") else "decoder"]
            positions, attention = stack["positions"]["kind"], stack["self_attention"]["kind"]
            scheme = row.id.split("_")[0]
            assert {"relative": "relative_bias", "t5": "t5_scaled"}.get(scheme, scheme) in (positions, attention)
            assert attention == "standard" or positions == "none"


def perplexities(**values):
    return {row: {"evaluate.perplexity": [0.999 * value, value, 1.001 * value]} for row, value in values.items()}


def test_no_positions_has_to_be_close_where_it_is_causal_and_far_where_it_is_not(studies):
    judge = lambda **values: judged(studies["haviv2022/nopos"], "no-positions-still-works", perplexities(**values))
    good = {"none": 50, "learned": 50, "none_short": 60, "learned_short": 60, "none_small": 70, "learned_small": 70}
    assert judge(**good, none_masked=400, relative_masked=30).status == HELD
    assert judge(**good).status == UNTESTED  # without the contrast
    assert judge(**good, none_masked=31, relative_masked=30).status == FAILED
    assert judge(**{**good, "none_small": 80}, none_masked=400, relative_masked=30).status == FAILED
    assert judge(none=60, learned=50, none_masked=400, relative_masked=30).status == FAILED


def test_a_probe_has_to_beat_chance_and_the_untrained_model(studies):
    def judge(errors, untrained=(32, 30, 30)):
        numbers = {"errors": errors, "errors_untrained": untrained, "middle": 32}
        rows = {"none": {f"measure.{name}": [value] for name, value in numbers.items()}}
        return judged(studies["haviv2022/probe"], "position-probe-by-layer", rows).status

    assert judge((32, 9, 12)) == HELD and judge((32, 9, 12), untrained=(32, 8, 9)) == FAILED
    assert judge((32, 31, 30)) == FAILED and judge((9, 9, 12)) == FAILED


def lengths(**ratios):
    return {row: {f"measure.ratio_{factor}": [value, value] for factor, value in zip((2, 4), values, strict=True)}
            for row, values in ratios.items()}  # fmt: skip


def test_extrapolation_is_judged_by_the_longest_rows(studies):
    study = studies["press2022/extrapolation"]
    judge = lambda claim, **ratios: judged(study, claim, lengths(**ratios), factors=(1, 2, 4))
    carries, sinusoid = "position-longer-sentences", "sinusoid-extrapolation-fails"
    assert judge(carries, alibi=(0.99, 0.98), learned=(2, 4)).status == FAILED
    assert judge(carries, alibi=(0.99, 0.98)).status == HELD and judge(carries, alibi=(1, 1.3)).status == FAILED
    rivals = dict.fromkeys(("alibi", "t5", "rotary"), (1, 1))
    lost = judge(sinusoid, sinusoidal=(1.2, 3), **rivals, none=(1, 5))
    assert lost.status == HELD and "none against sinusoidal: ratio_4 5 (none) against 3 (sinusoidal)" in lost.because
    assert judge(sinusoid, **rivals).status == UNTESTED
    assert judge(sinusoid, sinusoidal=(1.0, 1.1), alibi=(1, 1)).status == FAILED
    beyond = judge("learned-positions-no-extrapolation", learned=(2, 4))
    assert beyond.status == HELD and "learned positions: 5 tokens, but the table has 4 rows" in beyond.because


def test_of_two_language_models_one_has_as_many_parameters(studies):
    study = studies["lectures/positions"]
    rows = {row.id: configuration(study, "cpu", row) for row in study.rows_at("cpu") if row.id.startswith("lm_")}
    count = lambda id: sum(math.prod(shape) for shape in shapes(rows[id]).values())
    assert abs(count("lm_concatenated") / count("lm_added") - 1) < 0.001 < count("lm_added") / count("lm_none") - 1


def test_the_sinusoids_numbers_hold_and_a_broken_ones_do_not(studies):
    study = studies["lectures/positions"]
    found = measured(study, "sinusoid", code_width=64, code_length=2000, drawn=40)
    claims = ("sinusoid-heat-map", "sinusoid-dot-product-map", "binary-counter-analogy", "sinusoid-shift-is-rotation")
    rows = lambda **changed: {"sinusoid": {f"measure.{name}": [x] for name, x in {**found, **changed}.items()}}
    assert [judged(study, claim, rows()).status for claim in claims] == [HELD] * 4
    broken = rows(wavelength_error=0.1, diagonal_variation=1.0, changes=[99, 98, 20, 19], rotation_error=0.1)
    assert [judged(study, claim, broken).status for claim in claims] == [FAILED] * 4


def test_ways_of_adding_positions_are_distinguished(studies):
    study = studies["lectures/positions"]
    found = measured(study, "identities", code_width=16)
    assert max(found["tied"], found["inside"]) < 1e-4 < 0.1 < min(found["untied"], found["bare"])
    rows = {"identities": {f"measure.{name}": [x] for name, x in found.items()}}
    assert judged(study, "concatenate-equals-add-when-tied", rows).status == HELD


@pytest.mark.slow
@pytest.mark.parametrize(
    "attention",
    ["rotary", *(pytest.param(one, marks=pytest.mark.slow) for one in ("absolute", "alibi", "relative", "t5"))],
)
def test_a_shift_changes_only_the_weights_of_absolute_positions(attention, studies):
    moved = measured(studies["lectures/positions"], f"shift_{attention}")["moved"]
    assert (moved > 1e-3) == (attention == "absolute") and (attention == "absolute" or moved < 1e-5)


def test_heads_are_judged_by_what_they_point_at(studies):
    study, models = studies["lectures/heads"], ("blanks",)

    def judge(claim, **numbers):
        rows = dict.fromkeys(models, {f"measure.{name}": value for name, value in numbers.items()})
        return judged(study, claim, rows)

    offsets = {"offset_entity": [0.4] * 3, "offset_syntax": [0.2] * 3}
    good = judge("heads-specialise", best_entity=[0.9, 0.8, 0.7], best_syntax=[0.5] * 3, **offsets)
    half = judge("heads-specialise", best_entity=[0.9, 0.8, 0.7], best_syntax=[0.1] * 3, **offsets)
    assert (good.status, half.status) == (HELD, FAILED)
    assert half.cases["blanks, best_syntax against offset_syntax"].outcome == REVERSED
    masses = {f"mass_{link}": [0.6, 0.7] for link in ("syntax", "entity", "local")}
    before = {f"mass_{link}_untrained": [0.1, 0.2] for link in ("syntax", "entity", "local")}
    assert judge("learned-relevance-emerges", **masses, **before).status == HELD
    assert judge("learned-relevance-emerges", **masses, **{name: [0.6, 0.7] for name in before}).status == FAILED
    flat = {"distances_untrained": [[4.0, 4.0], [4.0, 4.1]]}
    assert judge("early-local-deep-long", distances=[[2.0, 5.0], [2.0, 4.9]], **flat).status == UNTESTED
    models = ("blanks", "reviews")
    assert judge("early-local-deep-long", distances=[[2.0, 5.0], [2.0, 4.9]], **flat).status == HELD
    assert judge("early-local-deep-long", distances=[[5.0, 2.0], [2.0, 4.0]], **flat).status == FAILED
