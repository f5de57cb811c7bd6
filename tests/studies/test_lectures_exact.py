"""`lectures/attention_layer` and `lectures/masking`: the verdicts of laws and of trained rows, by hand."""

import dataclasses

import pytest
from results_of import measured, results_of

from attention_research.studies import load_study
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, claims_of

STUDIES = ("lectures/attention_layer", "lectures/masking")


@pytest.fixture(scope="module")
def studies(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        yield {name: load_study(name, root / "experiments") for name in STUDIES}


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_has_its_verdict(studies, name):
    study = studies[name]
    assert set(study.verdicts) == {claim["id"] for claim in claims_of(study)}
    assert all(verdict(results_of({})).status == UNTESTED for verdict in study.verdicts.values())


def law(zero, other=1.0, said=0.0):
    """Two seeds of a law, of which the second differs."""
    columns = {"zeros": [{"it": 0.0}, {"it": zero}], "others": [{"not": other}, {"not": 1.0}],
               "said": [{"times": said}] * 2}  # fmt: skip
    return {f"measure.{name}": values for name, values in columns.items()}


def test_a_law_holds_if_no_seed_broke_it(studies):
    judge = studies["lectures/attention_layer"].verdicts["cross-attention-memory"]
    row = lambda **numbers: results_of({"cross-attention-memory": law(**numbers)})
    held = judge(row(zero=1e-15))
    assert held.status == HELD and "it: 1e-15; otherwise (not): 1" in held.because
    assert judge(row(zero=1e-6)).status == FAILED and judge(row(zero=0.0, other=1e-9)).status == FAILED


def test_the_loops_time_is_told(studies):
    judge = studies["lectures/attention_layer"].verdicts["matrix-form-equals-loop"]
    found = judge(results_of({"matrix-form-equals-loop": law(0.0, said=70.0)}))
    assert found.status == HELD and found.because.endswith("the loop takes 70 times as long (64 tokens)")


def rows(key, **values):
    """Three seeds a row, close together."""
    return {row: {key: [0.99 * value, value, 1.01 * value]} for row, value in values.items()}


def test_projections_help_if_the_ladder_climbs(studies):
    verdicts, key = studies["lectures/attention_layer"].verdicts, "measure.accuracy"
    judge = lambda claim, **values: verdicts[claim](results_of(rows(key, **values)))
    assert judge("key-value-projections-help", dot_none=0.2, dot_keys=0.9, dot_keys_values=0.9).status == HELD
    assert judge("key-value-projections-help", dot_none=0.9, dot_keys=0.9, dot_keys_values=0.9).status == FAILED
    both = {"additive_none": 0.9, "dot_none": 0.2, "dot_keys_values": 0.9}
    assert judge("dot-needs-projections", **both, additive_keys_values=0.9).status == HELD
    assert judge("dot-needs-projections", **both, additive_keys_values=0.99).status == CONDITION
    assert judge("dot-needs-projections", **{**both, "dot_none": 0.9}, additive_keys_values=0.9).status == FAILED


def test_the_cosine_may_not_be_better(studies):
    judge = lambda **values: studies["lectures/attention_layer"].verdicts["no-need-to-normalise"](
        results_of(rows("measure.loss", dot_all=0.1, scaled_dot_all=0.1, **values))
    )
    assert judge(cosine_all=0.5, cosine_temperature_all=0.1).status == HELD
    assert judge(cosine_all=0.5, cosine_temperature_all=0.01).status == CONDITION
    assert judge(cosine_all=0.01, cosine_temperature_all=0.01).status == FAILED
    assert judge(cosine_all=0.01).status == UNTESTED


def masking(studies, claim, made):
    results = results_of(made)
    scale = dataclasses.replace(results.study.scales["cpu"], settings={"lengths": (4, 8)})
    results = dataclasses.replace(results, study=dataclasses.replace(results.study, scales={"cpu": scale}))
    return studies["lectures/masking"].verdicts[claim](results)


def test_one_pass_has_to_be_the_faster_one_too(studies):
    times = lambda *ratios: {"truncation": {"measure.ratios": [list(ratios)] * 2}}
    judge = lambda made: masking(studies, "mask-equals-truncation", {"mask-equals-truncation": law(0.0), **made})
    assert judge(times(2.0, 4.0)).status == HELD and judge(times(0.5, 4.0)).status == CONDITION
    assert judge({}).status == UNTESTED
    broken = masking(studies, "mask-equals-truncation", {"mask-equals-truncation": law(1.0), **times(2.0, 4.0)})
    assert broken.status == FAILED


def test_a_decoder_cheats_if_it_knows_the_answer_and_cannot_write_it(studies):
    def judge(loss, written):
        made = rows("train.loss", masked=1.0, unmasked=loss)
        for row, numbers in rows("measure.recall", masked=0.9, unmasked=written).items():
            made[row] |= numbers
        return masking(studies, "unmasked-decoder-cheats", made).status

    assert judge(0.1, 0.05) == HELD and judge(1.0, 0.05) == CONDITION
    assert judge(0.1, 0.9) == FAILED and judge(0.1, 0.6) == FAILED


def test_an_encoder_is_better_for_its_two_sides(studies):
    law_of = {"encoder-is-unmasked-decoder": law(0.0)}
    judge = lambda **values: masking(
        studies, "encoder-is-unmasked-decoder", {**law_of, **rows("evaluate.perplexity", **values)}
    )
    assert judge(two_sided=20.0, one_sided=40.0).status == HELD
    assert judge(two_sided=40.0, one_sided=40.0).status == CONDITION and judge(two_sided=20.0).status == UNTESTED


def test_rows_differ_in_their_masks_alone(studies, root, monkeypatch):
    monkeypatch.chdir(root)
    study = studies["lectures/masking"]
    kinds = {}
    for row in study.rows_at("cpu", ["masked", "unmasked", "two_sided", "one_sided"]):
        model = configuration(study, "cpu", row).resolved["model"]
        side = "decoder" if "masked" in row.id else "encoder"
        kinds[row.id] = model[side]["self_attention"].pop("kind")
        model.pop("self_attention", None)
        kinds[f"{row.id} rest"] = str(model)
    assert [kinds[row] for row in ("masked", "unmasked", "two_sided", "one_sided")] == [
        "standard", "unmasked", "standard", "one_sided"]  # fmt: skip
    assert kinds["masked rest"] == kinds["unmasked rest"] and kinds["two_sided rest"] == kinds["one_sided rest"]


@pytest.mark.slow
def test_learned_keys_find_what_raw_inputs_do_not(studies):
    sizes = {"steps": 300, "batch_size": 64, "rates": (0.01,), "items": 4, "address": 6, "classes": 3}
    raw, learned = (measured(studies["lectures/attention_layer"], row, **sizes) for row in ("dot_none", "dot_keys"))
    assert raw["accuracy"] < 0.65 < 0.85 < learned["accuracy"] and raw["parameters"] + 81 == learned["parameters"]
    assert raw["chance"] == 1 / 3
