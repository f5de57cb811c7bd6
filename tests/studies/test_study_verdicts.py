"""Verdicts from numbers and their spread, and the claims of the recorded studies."""

import dataclasses
import math

import numpy as np
import pytest
from results_of import results_of, trial
from scipy.stats import t, ttest_ind, ttest_rel

from attention_research.errors import ConfigError
from attention_research.studies import Scale, load_study, tables
from attention_research.studies.columns import Column, fixed
from attention_research.studies.comparisons import CLEAR, OPEN, REVERSED, UNMEASURED, Margin
from attention_research.studies.row_comparisons import averages, same_batches
from attention_research.studies.verdicts import (
    CONDITION,
    FAILED,
    HELD,
    UNTESTED,
    Case,
    Verdict,
    against,
    apart,
    compare,
    conclude,
    equivalent,
    every_seed,
    judge,
    margin_of,
    near,
    no_worse,
)


def losses(**rows):
    return results_of({row: {"train.loss": values} for row, values in rows.items()})


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        ([1.0, 1.1], [2.0, 2.1], CLEAR),
        ([2.0, 2.1], [1.0, 1.1], REVERSED),
        ([1.0, 1.1], [1.05, 2.0], OPEN),
        ([1.0, 1.9], [2.0, 2.9], OPEN),
        ([1.0, 1.1], [1.0, 1.1], OPEN),
        ([1.0, 1.0], [2.0, 2.0], CLEAR),  # zero spread
        ([1.0, 1.1, 1.2], [math.nan] * 3, CLEAR),  # all runs of one row diverged and none of the other: p = 1 / 64
        ([1.0, 1.1], [math.nan, math.nan], OPEN),  # p = 1 / 16
        ([1.0, 1.1, 1.2], [math.nan, 2.0, 3.0], CLEAR),  # a diverged run is worse than any other: p = 1 / 20
        ([math.nan, 1.0], [2.0, 2.1], OPEN),
        ([1.0], [2.0, 2.1], UNMEASURED),
        ([1.0, 1.1], [], UNMEASURED),
    ],
)
def test_a_difference_is_clear_where_its_p_value_says_so(ours, theirs, outcome):
    found = compare(losses(a=ours, b=theirs), "a", "b")
    assert found.outcome == outcome
    assert found.clear is {CLEAR: True, UNMEASURED: None}.get(outcome, False)


def test_the_wording_follows_the_p_values():
    results = losses(a=[1.0, 1.1, 1.3], b=[2.0, 2.1, 2.4], c=[1.0, 1.3, 1.1], d=[2.0])
    text = lambda *rows: compare(results, *rows).text
    assert text("a", "b") == "loss 1.13 (a) against 2.17 (b), clear over 3 seeds (p = 0.0016)"
    assert text("b", "a") == "loss 2.17 (b) against 1.13 (a), reversed over 3 seeds (p = 0.0016)"
    assert text("c", "a") == "loss 1.13 (c) against 1.13 (a), not clear over 3 seeds (p = 0.5)"
    assert text("a", "d") == "loss 1.13 (a) against 2 (d), one seed: nothing is clear"
    assert text("a", "e") == "loss of e not measured"


def test_higher_is_better_where_said():
    results = results_of({"a": {"evaluate.bleu": [3.0, 3.1]}, "b": {"evaluate.bleu": [1.0, 1.1]}})
    better = compare(results, "a", "b", "evaluate.bleu", higher=True)
    assert better.clear and better.gain == pytest.approx(2.0)
    assert better.text.startswith("bleu 3.05 (a) against 1.05 (b), clear over 2 seeds (p = 0.00")
    assert compare(results, "a", "b", "evaluate.bleu").outcome == REVERSED


GIVEN = {
    "data": {"name": "pairs", "batching": {"boundaries": [32]}},
    "max_length": 32,
    "vocabulary_size": 97,
    "model": {"width": 11},
    "training": {"batch_size": 7, "steps": 13, "learning_rate": 0.1, "seed": 0},
}


def given(**changes):
    """A configuration with some settings of `training`, or whole sections, replaced in `GIVEN`."""
    training = {name: value for name, value in changes.items() if name not in GIVEN}
    sections = {name: value for name, value in changes.items() if name in GIVEN}
    return {**GIVEN, **sections, "training": {**GIVEN["training"], **training}}


@pytest.mark.parametrize(
    ("other", "seed", "same"),
    [
        (given(model={"width": 5}, learning_rate=0.3), 0, True),  # batches do not depend on these
        (given(seed=1), 1, False),
        (given(seed=1, data_seed=0), 1, True),
        (given(batch_size=5), 0, False),
        (given(steps=17), 0, False),
        (given(max_length=64), 0, False),
        (given(vocabulary_size=89), 0, False),
        (given(data={"name": "others"}), 0, False),
        (None, 0, False),
    ],
)
def test_trials_see_the_same_batches_where_their_configurations_say_so(other, seed, same):
    ours, theirs = (dataclasses.replace(trial("a", at), given=one) for at, one in ((0, GIVEN), (seed, other)))
    assert same_batches(ours, theirs) is same and same_batches(theirs, ours) is same
    tuned = [dataclasses.replace(one, stages=({"settings": {"name": "topics", "given": given(steps=3)}},))
             for one in (ours, theirs)]  # fmt: skip
    if other is not None:
        assert same_batches(*tuned, "topics") is (seed == 0)  # a fine-tuning has its own batches
    assert same_batches(*tuned) is same


def test_seeds_are_paired_where_they_share_batches():
    """A shift shared by both rows of a seed does not increase the spread of their difference."""
    rows = {"a": [1.0, 5.0, 9.1], "b": [2.0, 6.1, 10.0]}
    alone = losses(**rows)
    assert compare(alone, "a", "b").p == pytest.approx(
        ttest_ind(*rows.values(), equal_var=False, alternative="less")[1]
    )
    entries = tuple(
        dataclasses.replace(one, trial=dataclasses.replace(one.trial, given=given(seed=one.trial.seed)))
        for one in alone.entries
    )
    pairs = dataclasses.replace(alone, entries=entries)
    assert compare(pairs, "a", "b").p == pytest.approx(ttest_rel(*rows.values(), alternative="less")[1])
    late = dataclasses.replace(pairs, entries=entries[1:])  # the first seed of one row is missing
    rest = (values[1:] for values in rows.values())
    assert compare(late, "a", "b").p == pytest.approx(ttest_rel(*rest, alternative="less")[1])


def test_equality_takes_a_margin():
    """The two one-sided t tests by SciPy, on numbers moved by the margin."""
    rows = {"a": [1.0, 1.1, 1.05], "b": [1.02, 1.09, 1.0]}
    results, b = losses(**rows), np.array(rows["b"])
    test = lambda *sides: ttest_ind(*sides, equal_var=False, alternative="less").pvalue
    for margin, size in ((Margin(0.3), 0.3), (Margin(0.25, relative=True), 0.25 * b.mean())):
        found, bounds = equivalent(results, "a", "b", "train.loss", margin), (b + size, b - size)
        assert found.p == pytest.approx(max(test(rows["a"], bounds[0]), test(bounds[1], rows["a"])))
        assert no_worse(results, "a", "b", "train.loss", margin).p == pytest.approx(test(rows["a"], bounds[0]))
        assert found.clear and f"margin {margin}, clear" in found.text
    assert equivalent(results, "a", "b", "train.loss", Margin(0.01)).outcome == OPEN
    far = losses(a=[1.0, 1.1, 1.05], b=[3.0, 3.1, 3.05])
    assert equivalent(far, "a", "b", "train.loss", Margin(0.3)).outcome == REVERSED
    assert no_worse(far, "a", "b", "train.loss", Margin(0.3)).outcome == CLEAR
    assert no_worse(far, "b", "a", "train.loss", Margin(0.3)).outcome == REVERSED
    without = conclude({"loss": equivalent(results, "a", "b", "train.loss", None)})
    assert without.status == UNTESTED and "no margin was declared" in without.because
    with pytest.raises(ValueError, match="above 0"):
        Margin.parse("-3%")


def test_cases_make_one_verdict():
    results = losses(good=[1.0, 1.01, 1.02], bad=[2.0, 2.01, 2.02], near=[1.0, 1.03, 1.01], single=[9.0])
    yes, turned = compare(results, "good", "bad"), compare(results, "bad", "good")
    unclear, unknown = compare(results, "good", "near"), compare(results, "good", "single")
    assert conclude({"x": yes, "y": yes}).status == HELD
    some = conclude({"narrow": unclear, "wide": yes, "odd": turned})
    assert some.status == FAILED and some.because.startswith("1 of 3 cases holds, 1 is reversed; narrow: loss 1.01")
    assert {name: case.outcome for name, case in some.cases.items()} == {"narrow": OPEN, "wide": CLEAR, "odd": REVERSED}
    assert conclude({"x": unclear, "y": unclear}).because.startswith("0 of 2 cases hold; x: loss")
    assert conclude({"x": unknown}).status == UNTESTED
    partly = conclude({"x": yes, "y": unknown}, untested=("z",))
    assert partly.status == UNTESTED and partly.because.startswith("1 of 3 cases holds, 2 are not tested; x")
    assert conclude({"x": unclear, "y": unknown}).status == FAILED
    assert conclude({}).because == "nothing is measured"


def test_p_values_are_corrected_for_the_cases_of_a_claim():
    results = losses(a=[1.0, 1.1, 1.3], b=[1.3, 1.4, 1.7])
    one = compare(results, "a", "b")
    assert 0.025 < one.p < 0.05 and conclude({"x": one}).status == HELD
    assert conclude({"x": one, "y": one}).status == FAILED
    assert f"p = {2 * one.p:.2g}" in conclude({"x": one, "y": one}).because


def test_a_condition_counts_where_it_was_named_beforehand():
    results = losses(good=[1.0, 1.01, 1.02], bad=[2.0, 2.01, 2.02], near=[1.0, 1.03, 1.01])
    yes, turned = compare(results, "good", "bad"), compare(results, "bad", "good")
    cases = {"wide": yes, "wider": yes, "narrow": compare(results, "good", "near"), "odd": turned}
    assert conclude(cases).status == FAILED
    for condition in (("wide",), ("wide", "wider")):
        named = conclude(cases, condition=condition)
        assert named.status == CONDITION
        assert f"held for {', '.join(condition)}, the condition named beforehand" in named.sentences
    assert conclude(cases, condition=("wide", "narrow")).status == FAILED
    assert conclude(cases, condition=("odd",)).status == FAILED
    assert conclude({"x": yes, "y": yes}, condition=("x",)).status == HELD
    with pytest.raises(ConfigError, match="'wife': the claim has no such case; there are: wide, wider"):
        conclude(cases, condition=("wife",))


def claimed(tmp_path, verdict, *, condition="", margin=""):
    """The judgement of a claim with these cells in its line."""
    cells = ["good-beats-near", "000", "test", "Good.", "by/hand", "loss", "empirical", condition, margin]
    (tmp_path / "claims.csv").write_text(
        f"id,notes,topic,claim,study,measurement,kind,condition,margin\n{','.join(cells)}\n"
    )
    made = losses(good=[1.0, 1.01, 1.02], bad=[2.0, 2.01, 2.02], near=[1.0, 1.03, 1.01])
    study = dataclasses.replace(made.study, path=tmp_path / "hand.py", claims="claims.csv", competence=(),
                                verdicts={"good-beats-near": verdict})  # fmt: skip
    (found,) = judge(dataclasses.replace(made, study=study))
    return found


def test_the_line_of_a_claim_names_its_condition_and_its_margin(tmp_path):
    cases = lambda results: conclude({rival: compare(results, "good", rival) for rival in ("bad", "near")})
    assert claimed(tmp_path, cases).status == FAILED
    assert claimed(tmp_path, cases, condition="bad").status == CONDITION
    assert claimed(tmp_path, cases, condition="bad; near").status == FAILED
    with pytest.raises(ConfigError, match="claim good-beats-near: condition 'b'"):
        claimed(tmp_path, cases, condition="b")
    found_later = claimed(tmp_path, lambda results: Verdict(CONDITION, "held for bad"))
    assert found_later.status == FAILED
    assert found_later.verdict.sentences == ["held for bad", "no condition was named beforehand"]
    even = lambda results: conclude({
        "loss": equivalent(results, "good", "near", "train.loss", margin_of(results, "good-beats-near"))
    })  # fmt: skip
    assert [claimed(tmp_path, even, margin=text).status for text in ("", "10%", "0.001")] == [UNTESTED, HELD, FAILED]


def test_the_best_and_the_worst_of_several_rows_are_chosen_afterwards():
    results = losses(a=[1.0, 1.1, 1.3], b=[1.2, 1.3, 1.1], c=[1.4, 1.5, 1.8])
    chosen, asked = apart(results, "abc", "train.loss"), compare(results, "a", "c")
    assert (chosen.better, chosen.worse) == ("a", "c") and chosen.p == pytest.approx(6 * asked.p)
    assert asked.clear and not chosen.clear


def diverged(results, *rows):
    """The results, where the trials of these rows diverged and have no number."""
    gone = lambda entry: dataclasses.replace(entry, result={**entry.result, "stages": {}, "diverged": "step 3"})
    entries = (gone(entry) if entry.trial.row in rows else entry for entry in results.entries)
    return dataclasses.replace(results, entries=tuple(entries))


def test_the_worst_of_several_rows_may_have_diverged_and_one_row_is_not_apart():
    results = losses(a=[10.0, 11.0, 12.0], b=[10.1, 11.0, 11.9], c=[1.0, 1.0, 1.0], d=[])
    found = apart(diverged(results, "c"), "abcd", "train.loss")
    assert found.worse == "c" and found.p == pytest.approx(6 / 64)
    assert apart(results, "ad", "train.loss").outcome == UNMEASURED


def test_every_planned_row_and_every_seed_counts():
    results = diverged(losses(a=[1.0, 1.1], b=[1.0, 2.0], c=[], d=[1.0]), "d")
    rule = lambda values: Case.ruled(max(values) < 1.5, f"{max(values)}")
    found = every_seed(results, {**dict(zip("abcd", "ABCD", strict=True)), "elsewhere": "not run"}, "train.loss", rule)
    assert {name: case.outcome for name, case in found.items()} == {"A": CLEAR, "B": OPEN, "C": UNMEASURED, "D": OPEN}
    assert found["D"].numbers == "1 diverged"
    first = dataclasses.replace(results.entries[0], result=None)
    missing = dataclasses.replace(results, entries=(first, *results.entries[1:]))
    names = dict(zip("ab", "AB", strict=True))
    found = every_seed(missing, names, "train.loss", rule)
    assert found["A"] == Case(UNMEASURED, "1.1, 1 of 2 seeds missing") and found["B"].outcome == OPEN
    entries = [
        dataclasses.replace(e, result=None) if e.trial.row == "b" and not e.trial.seed else e for e in results.entries
    ]
    less = every_seed(dataclasses.replace(results, entries=tuple(entries)), names, "train.loss", rule)
    assert less["B"].outcome == OPEN  # what does not hold for a finished seed does not hold


def test_near_is_two_one_sided_tests():
    from scipy.stats import ttest_1samp

    values, margin = [2.026, 1.922, 1.972], Margin(0.1)
    found = near(losses(a=values), "a", "train.loss", 1.88, margin)
    below = ttest_1samp(values, 1.98, alternative="less").pvalue
    above = ttest_1samp(values, 1.78, alternative="greater").pvalue
    assert found.p == pytest.approx(max(below, above)) and found.outcome == OPEN
    assert near(losses(a=[1.87, 1.88, 1.89]), "a", "train.loss", 1.88, margin).outcome == CLEAR
    assert near(losses(a=[2.17, 2.18, 2.19]), "a", "train.loss", 1.88, margin).outcome == REVERSED
    assert near(losses(a=[math.nan, 1.88, 1.88]), "a", "train.loss", 1.88, margin).outcome == OPEN
    assert near(losses(a=[1.88]), "a", "train.loss", 1.88, margin).outcome == UNMEASURED
    assert near(losses(a=values), "a", "train.loss", 1.88, None).outcome == UNMEASURED


def test_averages_are_those_of_each_seed():
    results = results_of({"a": {"one.score": [10.0, 50.0, 70.0], "two.score": [20.0, 60.0, 80.0]}})
    assert averages(results, "a", ["one.score", "two.score"], higher=True) == [15.0, 55.0, 75.0]
    for lost, wanted in (({}, [55.0, 75.0]), ({"diverged": "step 3"}, [-math.inf, 55.0, 75.0])):
        stages = {**results.entries[0].result["stages"], "two": lost}
        first = dataclasses.replace(results.entries[0], result={**results.entries[0].result, "stages": stages})
        found = dataclasses.replace(results, entries=(first, *results.entries[1:]))
        assert averages(found, "a", ["one.score", "two.score"], higher=True) == wanted


def test_a_number_is_compared_with_another_of_its_runs_or_a_constant():
    numbers = {"measure.ours": [0.5, 0.9, 1.4], "measure.floor": [0.4, 0.8, 1.2]}
    results = results_of({"a": numbers})
    within_runs = against(results, "a", "measure.ours", "measure.floor")
    assert within_runs.p == pytest.approx(ttest_rel(*numbers.values(), alternative="greater").pvalue)
    assert against(results, "a", "measure.ours").text.startswith("ours 0.933 (a) against 0, clear over 3 seeds")
    assert (
        against(results, "a", "measure.ours", 2.0, higher=False).clear and against(results, "b", "measure.o").p is None
    )


def test_a_diverged_trial_counts_though_it_has_no_loss():
    results = losses(a=[1.0, 1.1, 1.2], b=[2.0, 2.2])
    gone = dataclasses.replace(results.entries[0], trial=dataclasses.replace(results.entries[-1].trial, seed=2))
    gone = dataclasses.replace(gone, result={**gone.result, "stages": {}, "diverged": "step 3: the loss is nan"})
    results = dataclasses.replace(results, entries=(*results.entries, gone))
    found = compare(results, "a", "b")
    assert found.clear and "against diverged (b)" in found.text
    assert results.notes("b") == ["diverged (step 3: the loss is nan)"]


ABLATION = {
    "standard": ([3.0, 3.01, 3.02], [5.0, 5.01, 5.02]),
    "unscaled": ([3.5, 3.51, 3.52], [4.0, 4.01, 4.02]),
    "no_positions": ([3.6, 3.61, 3.62], [3.0, 3.01, 3.02]),
    "heads_1": ([3.2, 3.21, 3.22], [4.8, 4.81, 4.82]),
    "unscaled_heads_1": ([3.9, 3.91, 3.92], [2.0, 2.01, 2.02]),
    "no_feed_forward": ([3.4, 3.41, 3.42], [4.0, 4.01, 4.02]),
    "no_residual": ([6.0, 6.01, 6.02], [0.1, 0.11, 0.12]),
    "no_norm": ([3.0, 3.02, 3.01], [5.0, 5.02, 5.01]),
    "no_mask": ([0.1, 0.11, 0.12], [0.3, 0.31, 0.32]),
    "deep": ([2.9, 2.91, 2.92], [5.2, 5.21, 5.22]),
    "deep_no_residual": ([6.5, 6.51, 6.52], [0.1, 0.11, 0.12]),
}


def ablation(root, **replaced):
    """The recorded study with these losses and BLEU scores in place of trials, as if its models had learned."""
    rows = {**ABLATION, **replaced}
    study = load_study("ablation/attention", root / "experiments")
    made = results_of({row: {"train.loss": loss, "evaluate.bleu": bleu} for row, (loss, bleu) in rows.items()})
    return dataclasses.replace(made, study=dataclasses.replace(study, competence=()))


def test_the_ablation_judges_its_claims(root):
    verdicts = {one.id: one for one in judge(ablation(root))}
    assert verdicts["scaling-helps-training"].status == HELD
    assert verdicts["residuals-help-training"].status == HELD
    parts = verdicts["necessary-parts"]
    assert parts.status == FAILED
    assert parts.verdict.cases["BLEU, normalisation"].outcome == OPEN


def test_a_claim_may_fail(root):
    same = {"unscaled": ABLATION["standard"], "unscaled_heads_1": ABLATION["heads_1"]}
    verdicts = {one.id: one for one in judge(ablation(root, **same))}
    assert verdicts["scaling-helps-training"].status == FAILED
    wide = {one.id: one for one in judge(ablation(root, unscaled=ABLATION["deep"]))}["scaling-helps-training"]
    assert wide.status == FAILED and wide.verdict.cases["loss, the configuration's key width"].outcome == REVERSED


def test_below_cpu_verdicts_are_computed_and_not_claimed(root):
    quick = dataclasses.replace(ablation(root), scale="quick")
    assert {one.status for one in judge(quick)} == {"not judged at this scale"}
    assert {one.to_json()["computed"] for one in judge(quick)} == {HELD, FAILED}


def test_below_cpu_only_claims_with_a_measured_case_are_shown(root):
    some = dataclasses.replace(ablation(root), scale="quick")
    kept = {"standard", "unscaled"}
    some = dataclasses.replace(some, entries=tuple(one for one in some.entries if one.trial.row in kept))
    assert [one.id for one in judge(some) if one.shown] == ["scaling-helps-training"]
    assert all(one.shown for one in judge(dataclasses.replace(some, scale="cpu")))


def legend_of(errors, lost=(), paired=False):
    """The legend of a table of word errors by hand, with the reference row `ours`. `lost` are (row, seed)."""
    key = Column("evaluate.word_error_rate", "word errors, %", fixed(1), better="lower")
    made = results_of({row: {key.key: values} for row, values in errors.items()})
    there = [one for one in made.entries if (one.trial.row, one.trial.seed) not in lost]
    if paired:
        there = [dataclasses.replace(one, trial=dataclasses.replace(one.trial, given=GIVEN)) for one in there]
    made = dataclasses.replace(made, entries=tuple(there))
    size = Scale(reference="ours", decided_by=key)
    assert "against" not in tables.legend(made)
    return tables.legend(dataclasses.replace(made, study=dataclasses.replace(made.study, scales={"cpu": size})))


def test_all_rows_are_compared_with_the_reference_row_below_the_table():
    """Twice the one-sided p, times 2 and 1 by Holm, from SciPy's Welch's test of three seeds."""
    errors = {"ours": [50.0, 50.4, 50.3], "far": [66.0, 70.6, 67.4], "near": [50.3, 49.9, 50.2], "one": [40.0]}
    p = ttest_ind(errors["far"], errors["ours"], equal_var=False).pvalue
    said = legend_of(errors)
    assert f"word errors, %, against ours: far +17.8, clear (p = {2 * p:.2g}); near -0.1, not clear (p = " in said, said
    assert "one -10.2, not measured." in said and "estimated" not in said


def test_two_seeds_are_compared_with_the_spread_of_all_rows():
    """Residuals ±1/60, ±7/60 and ±8/60: s^2 = 2 (1 + 49 + 64) / 3600 / 2 with 2 degrees of freedom; t = 18.1 / s."""
    said = legend_of({"ours": [50.0, 50.4], "far": [68.0, 68.6], "near": [50.3, 50.4], "one": [40.0]})
    p = 2 * 2 * t.sf(18.1 / math.sqrt(114 / 3600), 2)
    assert f"against ours: far +18.1, clear (p = {p:.2g}); near +0.1, not clear (p = " in said, said
    assert "one -10.2, not measured. The spread of two seeds is estimated from all rows." in said


def test_rows_that_lost_different_seeds_are_not_paired_by_position():
    """`far` lost seed 0 and the other rows seed 2. Paired by position, its numbers would hide that of `near`."""
    errors = {"ours": [50.0, 60.0, 0.0], "near": [53.0, 63.1, 0.0], "low": [46.0, 56.2, 0.0], "far": [0.0, 67.0, 67.2]}
    said = legend_of(errors, lost={("ours", 2), ("near", 2), ("low", 2), ("far", 0)})
    assert "near +3.0, clear" in said and "low -3.9, clear" in said and "far +12.1, not clear" in said, said


def test_the_difference_is_that_of_the_seeds_that_are_compared():
    """Seed 2, which only the reference row has, would turn its sign."""
    errors = {"ours": [50.0, 60.0, 10.0], "far": [48.8, 58.6, 0.0]}
    assert "far -1.3, clear" in legend_of(errors, lost={("far", 2)}, paired=True)


def test_a_diverged_run_is_worse_than_any_other_below_the_table():
    ours, nan = [50.0, 50.4, 50.3], math.nan
    assert "ours: bad 3 of 3 runs diverged, clear (p = 0.031)" in legend_of({"ours": ours, "bad": [nan, nan, nan]})
    assert "ours: some 1 of 3 runs diverged, not clear (p = " in legend_of({"ours": ours, "some": [nan, 49.0, 49.1]})
    said = legend_of({"ours": [nan, 50.4, 50.3], "far": [66.0, 70.6, 67.4]})
    assert "far 1 of 3 runs of the reference row diverged, not clear" in said, said
