"""Verdicts from numbers and their spread; the claims of the recorded studies."""

import dataclasses
import math

import pytest
from results_of import results_of

from attention_research.studies import load_study
from attention_research.studies.verdicts import CONDITION, FAILED, HELD, UNTESTED, compare, conclude, judge


def losses(**rows):
    return results_of({row: {"train.loss": values} for row, values in rows.items()})


@pytest.mark.parametrize(
    ("ours", "theirs", "clear"),
    [
        ([1.0, 1.1], [2.0, 2.1], True),
        ([2.0, 2.1], [1.0, 1.1], False),
        ([1.0, 1.1], [1.05, 2.0], False),  # the seeds overlap
        ([1.0, 1.9], [2.0, 2.9], False),  # apart, but by less than two standard errors
        ([1.0, 1.1], [1.0, 1.1], False),
        ([1.0, 1.1], [math.nan, 2.0], True),  # a run that diverged is worse than any
        ([math.nan, 1.0], [2.0, 2.1], False),
        ([1.0], [2.0, 2.1], None),
        ([1.0, 1.1], [], None),
    ],
)
def test_a_difference_is_clear_where_seeds_and_errors_say_so(ours, theirs, clear):
    assert compare(losses(a=ours, b=theirs), "a", "b").clear is clear


def test_higher_is_better_where_said():
    results = results_of({"a": {"evaluate.bleu": [3.0, 3.1]}, "b": {"evaluate.bleu": [1.0, 1.1]}})
    better = compare(results, "a", "b", "evaluate.bleu", higher=True)
    assert better.clear and better.gain == pytest.approx(2.0)
    assert better.text == "bleu 3.05 (a) against 1.05 (b), clear over 2 seeds"
    assert compare(results, "a", "b", "evaluate.bleu").clear is False


def test_cases_make_one_verdict():
    results = losses(good=[1.0, 1.1], bad=[2.0, 2.1], single=[9.0])
    yes, no = compare(results, "good", "bad"), compare(results, "bad", "good")
    unknown = compare(results, "good", "single")
    assert conclude({"x": yes, "y": yes}).status == HELD
    some = conclude({"narrow": no, "wide": yes})
    assert some.status == CONDITION and some.because.startswith("held for wide; narrow: loss 2.05")
    assert conclude({"x": no, "y": no}).status == FAILED
    assert conclude({"x": unknown}).status == UNTESTED
    partly = conclude({"x": yes, "y": unknown}, untested=("z",))
    assert partly.status == CONDITION and partly.because.endswith("not tested: y, z")


def test_a_diverged_trial_counts_though_it_has_no_loss():
    results = losses(a=[1.0, 1.1], b=[2.0])
    gone = dataclasses.replace(results.entries[0], trial=dataclasses.replace(results.entries[-1].trial, seed=1))
    gone = dataclasses.replace(gone, result={**gone.result, "stages": {}, "diverged": "step 3: the loss is nan"})
    results = dataclasses.replace(results, entries=(*results.entries, gone))
    found = compare(results, "a", "b")
    assert found.clear and "against diverged (b)" in found.text
    assert results.notes("b") == "diverged (step 3: the loss is nan)"


ABLATION = {
    "standard": ([3.0, 3.1], [5.0, 5.1]),
    "unscaled": ([3.5, 3.6], [4.0, 4.1]),
    "no_positions": ([3.6, 3.7], [3.0, 3.1]),
    "heads_1": ([3.2, 3.3], [4.8, 4.9]),
    "unscaled_heads_1": ([3.9, 4.0], [2.0, 2.1]),
    "no_feed_forward": ([3.4, 3.5], [4.0, 4.1]),
    "no_residual": ([6.0, 6.1], [0.1, 0.2]),
    "no_norm": ([3.05, 3.06], [5.0, 5.1]),
    "no_mask": ([0.1, 0.2], [0.3, 0.4]),
    "deep": ([2.9, 2.91], [5.2, 5.3]),
    "deep_no_residual": ([6.5, 6.6], [0.1, 0.2]),
}


def ablation(root, **replaced):
    """The recorded study with these losses and BLEU in place of trials, as if its models had learned."""
    rows = {**ABLATION, **replaced}
    study = load_study("ablation/attention", root / "experiments")
    made = results_of({row: {"train.loss": loss, "evaluate.bleu": bleu} for row, (loss, bleu) in rows.items()})
    return dataclasses.replace(made, study=dataclasses.replace(study, competence=()))


def test_the_ablation_judges_its_claims(root):
    verdicts = {one.id: one for one in judge(ablation(root))}
    assert verdicts["scaling-helps-training"].status == HELD
    assert verdicts["residuals-help-training"].status == HELD
    parts = verdicts["necessary-parts"]
    assert parts.status == CONDITION and "normalisation" in parts.verdict.because
    needed = ("positions", "feed-forward", "residuals")
    held = ", ".join(f"loss, {part}, BLEU, {part}" for part in needed)
    assert parts.verdict.because.startswith(f"held for {held}, BLEU, masking;")


def test_a_claim_may_fail(root):
    same = {"unscaled": ABLATION["standard"], "unscaled_heads_1": ABLATION["heads_1"]}
    verdicts = {one.id: one for one in judge(ablation(root, **same))}
    assert verdicts["scaling-helps-training"].status == FAILED
    wide = {one.id: one for one in judge(ablation(root, unscaled=ABLATION["standard"]))}["scaling-helps-training"]
    assert wide.status == CONDITION and wide.verdict.because.startswith("held for loss, key width = model width")


def test_below_cpu_verdicts_are_computed_and_not_claimed(root):
    quick = dataclasses.replace(ablation(root), scale="quick")
    assert {one.status for one in judge(quick)} == {"not judged at this scale"}
    assert {one.to_json()["computed"] for one in judge(quick)} == {HELD, CONDITION}
