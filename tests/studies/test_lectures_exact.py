"""Studies of the lectures with exact laws: verdicts on laws and on trained rows, by hand."""

import dataclasses

import pytest
from results_of import clear_cases, declared, measured, results_of, with_margin

from attention_research.studies.comparisons import REVERSED
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDIES = tuple(
    f"lectures/{name}"
    for name in ("attention_layer", "embeddings", "gating", "masking", "recurrent", "hard_attention", "soft_lookup")
)


def law(zero, other=1.0, said=0.0):
    """Two seeds of a law, with changed numbers for the second."""
    columns = {"zeros": [{"it": 0.0}, {"it": zero}], "others": [{"not": other}, {"not": 1.0}],
               "said": [{"times": said}] * 2}  # fmt: skip
    return {f"measure.{name}": values for name, values in columns.items()}


def test_a_law_holds_if_no_seed_broke_it(studies):
    judge = studies["lectures/attention_layer"].verdicts["cross-attention-memory"]
    row = lambda **numbers: results_of({"cross-attention-memory": law(**numbers)})
    held = judge(row(zero=1e-15))
    assert held.status == HELD and "it: 1e-15, clear; control (not): 1, clear" in held.because
    assert judge(row(zero=1e-6)).status == FAILED and judge(row(zero=0.0, other=1e-9)).status == FAILED


def test_the_time_of_the_loop_is_reported(studies):
    judge = studies["lectures/attention_layer"].verdicts["matrix-form-equals-loop"]
    found = judge(results_of({"matrix-form-equals-loop": law(0.0, said=70.0)}))
    assert found.status == HELD and "the loop takes 70 times as long (64 tokens)" in found.sentences


def rows(key, **values):
    """Three seeds for each row, close together."""
    return {row: {key: [0.99 * value, value, 1.01 * value]} for row, value in values.items()}


def test_projections_help_if_the_ladder_climbs(studies):
    study, key = studies["lectures/attention_layer"], "measure.accuracy"
    judge = lambda claim, **values: study.verdicts[claim](declared(study, results_of(rows(key, **values))))
    assert judge("key-value-projections-help", dot_none=0.2, dot_keys=0.9, dot_keys_values=0.9).status == HELD
    assert judge("key-value-projections-help", dot_none=0.9, dot_keys=0.9, dot_keys_values=0.9).status == FAILED
    both = {"additive_none": 0.9, "dot_none": 0.2, "dot_keys_values": 0.9}
    assert judge("dot-needs-projections", **both, additive_keys_values=0.8).status == HELD
    # These are one percent of spread apart, so it is not certain that the difference is below 0.01.
    assert judge("dot-needs-projections", **both, additive_keys_values=0.9).status == FAILED
    worse = judge("dot-needs-projections", **both, additive_keys_values=0.99)
    assert worse.cases["as good as additive with projections"].outcome == REVERSED
    assert judge("dot-needs-projections", **{**both, "dot_none": 0.9}, additive_keys_values=0.8).status == FAILED


def test_the_cosine_may_not_be_better(studies, tmp_path):
    def judge(margin="0.05", **values):
        numbers = rows("measure.loss", dot_all=0.1, scaled_dot_all=0.1, **values)
        return with_margin(studies["lectures/attention_layer"], "no-need-to-normalise", numbers, margin, tmp_path)

    assert judge(cosine_all=0.5, cosine_temperature_all=0.1).status == HELD
    assert judge(cosine_all=0.5, cosine_temperature_all=0.01).status == FAILED
    assert judge(cosine_all=0.01).status == FAILED and judge(cosine_all=0.5).status == UNTESTED
    without = judge(margin="", cosine_all=0.5, cosine_temperature_all=0.1)
    assert without.status == UNTESTED and "no margin was declared" in without.because


def masking(studies, claim, made):
    return studies["lectures/masking"].verdicts[claim](results_of(made, settings={"lengths": (4, 8)}))


def test_one_pass_has_to_be_the_faster_one_too(studies):
    times = lambda *ratios: {"truncation": {"measure.ratios": [list(ratios)] * 2}}
    judge = lambda made: masking(studies, "mask-equals-truncation", {"mask-equals-truncation": law(0.0), **made})
    assert judge(times(2.0, 4.0)).status == HELD and judge(times(0.5, 4.0)).status == FAILED
    assert judge({}).status == UNTESTED
    broken = masking(studies, "mask-equals-truncation", {"mask-equals-truncation": law(1.0), **times(2.0, 4.0)})
    assert broken.status == FAILED


def test_a_decoder_cheats_if_it_predicts_well_and_generates_badly(studies):
    def judge(loss, written):
        made = rows("train.loss", masked=1.0, unmasked=loss)
        for row, numbers in rows("measure.recall", masked=0.9, unmasked=written).items():
            made[row] |= numbers
        return masking(studies, "unmasked-decoder-cheats", made).status

    assert judge(0.1, 0.05) == HELD and judge(1.0, 0.05) == FAILED
    assert judge(0.1, 0.9) == FAILED and judge(0.1, 0.6) == FAILED


def test_an_encoder_is_better_for_its_two_sides(studies):
    law_of = {"encoder-is-unmasked-decoder": law(0.0)}
    judge = lambda **values: masking(
        studies, "encoder-is-unmasked-decoder", {**law_of, **rows("evaluate.perplexity", **values)}
    )
    assert judge(two_sided=20.0, one_sided=40.0).status == HELD
    assert judge(two_sided=40.0, one_sided=40.0).status == FAILED and judge(two_sided=20.0).status == UNTESTED


def test_rows_differ_in_their_masks_alone(studies):
    study = studies["lectures/masking"]
    kinds = {}
    for row in study.rows_at("cpu", ["masked", "unmasked", "two_sided", "one_sided"]):
        model = configuration(study, "cpu", row).resolved["model"]
        side = "decoder" if "masked" in row.id else "encoder"
        kinds[row.id] = model[side]["self_attention"].pop("kind")
        model.pop("self_attention", None)
        kinds[f"{row.id} rest"] = str(model)
    assert [kinds[row] for row in ("masked", "unmasked", "two_sided", "one_sided")] == [
        "standard", "unmasked", "relative_bias", "one_sided_relative_bias"]  # fmt: skip
    assert kinds["masked rest"] == kinds["unmasked rest"] and kinds["two_sided rest"] == kinds["one_sided rest"]


@pytest.mark.slow
def test_learned_keys_have_to_beat_raw_inputs(studies):
    sizes = {"steps": 300, "batch_size": 64, "rates": (0.01,), "items": 4, "address": 6, "classes": 3}
    raw, learned = (measured(studies["lectures/attention_layer"], row, **sizes) for row in ("dot_none", "dot_keys"))
    assert raw["accuracy"] < 0.65 < 0.85 < learned["accuracy"] and raw["parameters"] + 81 == learned["parameters"]
    assert raw["chance"] == 1 / 3


def curves(*seeds):
    return {"soft": {"measure.curve": [list(one) for one in seeds]}}


def test_a_smooth_gradient_has_to_train_something(studies):
    judge = lambda made: studies["lectures/hard_attention"].verdicts["soft-gradient-smooth"](
        results_of({"soft-gradient-smooth": law(0.0), **made})
    )
    assert judge(curves((2.0, 0.1), (2.0, 0.2))).status == HELD and judge({}).status == UNTESTED
    assert judge(curves((2.0, 0.1), (2.0, 2.5))).status == FAILED


def test_the_mean_of_estimates_may_differ_by_four_standard_errors(studies):
    def judge(plain, based):
        names = ("largest_z", "share", "variance")
        row = {f"measure.{name}{suffix}": [1.0, value] for name in names
               for suffix, value in (("", plain), ("_with_baseline", based))}  # fmt: skip
        return studies["lectures/hard_attention"].verdicts["hard-needs-reinforce"](results_of({"estimate": row})).status

    assert judge(2.0, 3.0) == HELD and judge(2.0, 5.0) == FAILED and judge(5.0, 1.0) == FAILED


def test_hard_is_harder_if_it_is_worse_or_later_and_noisier(studies):
    def judge(accuracy, steps, variance):
        made = rows("measure.accuracy", soft=0.97, argmax=0.2, reinforce=0.5, reinforce_baseline=accuracy)
        for row, values in (("soft", (90, 100, 110)), ("reinforce_baseline", steps)):
            made[row]["measure.steps"] = list(values)
        for row, value in (("soft", 10.0), ("reinforce", 90.0), ("reinforce_baseline", variance)):
            made[row]["measure.of_squares"] = [value] * 3
        return studies["lectures/hard_attention"].verdicts["hard-is-hard-to-train"](results_of(made))

    assert judge(0.97, (900, 900, 900), 50.0).status == HELD and judge(0.5, (90, 90, 90), 50.0).status == HELD
    quick = judge(0.97, (90, 90, 90), 50.0)
    assert quick.status == FAILED and clear_cases(quick) == ["argmax", "reinforce"]
    assert judge(0.97, (900, 900, 900), 5.0).status == FAILED
    assert judge(0.3, (90, 90, 90), 5.0).status == HELD  # clearly less accurate, whatever its variance
    assert judge(1.2, (900, 900, 900), 50.0).status == FAILED  # clearly more accurate


def capacity(studies, **accuracies):
    return results_of(
        {row: {"measure.accuracies": [list(one)] * 2} for row, one in accuracies.items()},
        settings={"lengths": (2, 8, 32), "pairs": (2, 8, 32)},
    )


def test_a_states_capacity_falls_with_length_and_grows_with_width(studies):
    judge = lambda **rows: studies["lectures/recurrent"].verdicts["rnn-one-state-capacity"](capacity(studies, **rows))
    held = judge(copying_8=(1.0, 0.4, 0.1), copying_64=(1.0, 0.9, 0.4))
    assert held.status == HELD and "below half from 8 at width 8, 32 at width 64" in held.because
    assert judge(copying_8=(1.0, 0.4, 0.1), copying_64=(1.0, 0.4, 0.1)).status == FAILED
    assert judge(copying_8=(1.0, 1.0, 1.0), copying_64=(1.0, 1.0, 1.0)).status == FAILED


def test_two_directions_have_to_tag_better(studies):
    judge = lambda **values: studies["lectures/recurrent"].verdicts["bidirectional-sees-later-steps"](
        results_of({"bidirectional-sees-later-steps": law(0.0), **rows("measure.accuracy", **values)})
    )
    assert judge(tagging_1=0.3, tagging_2=0.9).status == HELD
    assert judge(tagging_1=0.9, tagging_2=0.9).status == FAILED and judge(tagging_1=0.9).status == UNTESTED


def test_a_pointer_finds_every_value_and_a_state_does_not(studies):
    def judge(attention, state):
        made = {"attention": (1.0, 1.0, attention), "rnn": (1.0, 0.5, state)}
        results = capacity(studies, **made)
        numbers = {row: {"measure.accuracies": [list(one)] * 2, "measure.most": [one[-1]] * 2}
                   for row, one in made.items()}  # fmt: skip
        results = dataclasses.replace(results_of(numbers), study=results.study)
        return studies["lectures/soft_lookup"].verdicts["attention-as-memory-pointer"](results).status

    assert judge(1.0, 0.1) == HELD and judge(0.9, 0.1) == FAILED and judge(1.0, 1.0) == FAILED
    assert judge(0.5, 0.5) == FAILED


def test_attention_is_a_gate_if_it_learns_products(studies):
    def judge(attention, gated=0.01):
        made = rows("measure.error", attention=attention, gated=gated, ungated=1.0)
        return (
            studies["lectures/gating"]
            .verdicts["gating-interactions"](results_of({"gating-interactions": law(0.0), **made}))
            .status
        )

    assert judge(0.1) == HELD and judge(0.8) == FAILED and judge(1.0) == FAILED


def embeddings(studies, claim, made):
    return studies["lectures/embeddings"].verdicts[claim](
        results_of(made, settings={"labels": (16, 64), "shown": "bank"})
    )


def test_choices_are_ranked_at_each_number_of_labels(studies):
    def judge(spread=0.0, **accuracies):
        made = {choice: {"measure.accuracies": [list(one), [one[0] + spread * (choice == "tf_idf"), one[1]]]}
                for choice, one in accuracies.items()}  # fmt: skip
        return embeddings(studies, "embedding-choices-ranked", made)

    assert judge(random=(0.3, 0.4), tf_idf=(0.4, 0.6), pretrained=(0.6, 0.8)).status == HELD
    part = judge(random=(0.3, 0.4), tf_idf=(0.4, 0.9), pretrained=(0.6, 0.8), learned=(0.1, 0.1))
    better = "TF-IDF above random, frozen, {} labels"
    few = [better.format(16), "pre-trained, frozen above TF-IDF, 16 labels", better.format(64)]
    assert part.status == FAILED and clear_cases(part) == few
    assert judge(random=(0.7, 0.7), tf_idf=(0.4, 0.6), pretrained=(0.6, 0.8)).status == FAILED
    # The means are in order, but not in every seed.
    assert judge(random=(0.3, 0.4), tf_idf=(0.4, 0.6), pretrained=(0.6, 0.8), spread=0.25).status == FAILED


def test_context_moves_a_word_that_was_one_vector(studies):
    def judge(gap, first=0.97):
        encoder = {"within": [[first, 0.9]] * 2, "across": [[first, 0.9 - gap]] * 2, "gap_last": [gap, gap],
                   "words": [{"bank": gap, "bat": 0.1}] * 2, "points": [[[[0.0, 0.0]]]] * 2}  # fmt: skip
        made = {"encoder": {f"measure.{name}": values for name, values in encoder.items()},
                "encoder_drawn": {"measure.gap_last": [0.0, 0.001]}}  # fmt: skip
        claims = ("embeddings-moved-by-context", "embedding-context-figure")
        return [embeddings(studies, claim, made).status for claim in claims]

    assert judge(0.1) == [HELD, HELD] and judge(0.1, first=0.8) == [FAILED, HELD]
    assert judge(-0.1) == [FAILED, FAILED]
