"""`lectures/identity`: the result of the measurement, and its verdicts by hand."""

import pytest
from results_of import clear_cases, results_of

from attention_research.studies.loading import dereference, reference
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "lectures/identity"


def judged(study, claim, rows):
    return study.verdicts[claim](results_of(rows, settings={"depths": (2, 8), "tolerance": 0.01}))


def errors(*seeds, steps=(50, 50), floor=0.004):
    """Errors of two or more seeds, the same on both targets."""
    numbers = {"identity_errors": list(seeds), "near_errors": list(seeds), "near_floor": [floor] * len(seeds)}
    numbers |= {f"{target}_steps": [steps] * len(seeds) for target in ("identity", "near")}
    return {f"measure.{name}": values for name, values in numbers.items()}


@pytest.mark.slow
def test_a_shallow_residual_stack_learns_what_it_is_asked_for(study):
    (row,) = study.rows_at("cpu", ["residual_relu"])
    sizes = {"depths": (2,), "width": 4, "rates": (0.01,), "steps": 600, "batch_size": 32, "tolerance": 0.01}
    found = dereference(reference(row.stages[0].function if row.stages else study.stages[0].function))(
        **row.settings, **sizes, seed=0
    )
    assert found["identity"] < 0.01 and found["identity_errors"] == [found["identity"]]
    assert 0 < found["steps"] < 600 and 0.001 < found["near_floor"] < 0.01


def test_plain_stacks_fail_where_no_seed_is_within_the_tolerance(study):
    lost = errors((0.1, 0.9), (0.02, 0.8))
    others = {"plain_gelu": lost, "plain_tanh": lost}
    judge = lambda **rows: judged(study, "identity-hard-to-learn", rows | others)
    assert judge(plain_relu=lost).status == HELD and judge().status == UNTESTED
    deep = judge(plain_relu=errors((0.001, 0.9), (0.001, None)))
    assert deep.status == HELD and "not learned from 8 layers on" in deep.because
    assert judge(plain_relu=errors((0.1, 0.9), (0.02, 0.001))).status == FAILED  # a seed learns the deepest stack
    assert judge(plain_relu=errors((0.1, 0.9), (0.9, 0.8))).status == FAILED  # a seed gains by depth


def test_shortcuts_have_to_reach_the_tolerance_sooner_and_below_plain_ones(study):
    def judge(plain, residual, activations=("relu", "gelu", "tanh")):
        rows = {f"{arm}_{name}": found for name in activations for arm, found in arms(plain, residual)}
        return judged(study, "residual-makes-identity-easy", rows)

    arms = lambda plain, residual: (("plain", plain), ("residual", residual))
    plain = errors((0.1, 0.9), (0.02, 0.8), steps=(None, None))
    assert judge(plain, errors((0.001, 0.003), (0.002, 0.002))).status == HELD
    assert judge(plain, errors((0.001, 0.003), (0.002, 0.002)), ("relu", "gelu")).status == UNTESTED
    assert judge(plain, errors((0.5, 0.5), (0.5, 0.5), steps=(None, None))).status == FAILED
    partly = judge(plain, errors((0.001, 0.006), (0.002, 0.002)))  # the near-identity has a lower floor
    assert partly.status == FAILED and "relu, near-identity, 2 layers" in clear_cases(partly)
    later = judge(errors((0.003, 0.003), (0.003, 0.003), steps=(10, 10)), errors((0.001, 0.001), (0.002, 0.002)))
    assert later.status == FAILED
