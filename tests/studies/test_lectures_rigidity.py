"""`lectures/rigidity`: every claim has a verdict; verdicts by hand."""

from results_of import clear_cases, results_of, with_margin

from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "lectures/rigidity"


def around(value):
    return [value - 0.01, value, value + 0.01]


def vectors(agreement, after):
    lists = {"agreement": agreement, "before": [0.1] * 3, "after": after, "own": [0.2] * 3}
    return {"encoder": {f"measure.{name}": [values] * 2 for name, values in lists.items()}}


def test_weights_have_to_follow_directions_and_outputs_to_come_out_alike(study):
    judge = lambda *lists: study.verdicts["basic-favours-parallel-tokens"](results_of(vectors(*lists)))
    assert judge([0.9, 0.9, 0.8], [0.5, 0.4, 0.3]).status == HELD
    partly = judge([0.9, 0.9, 0.8], [0.5, 0.1, 0.3])
    assert partly.status == FAILED and clear_cases(partly) == ["vectors of words", "vectors of layer 1"]
    assert judge([0.2, 0.9, 0.8], [0.5, 0.4, 0.3]).status == FAILED
    assert judge([0.9, 0.9, 0.8], [0.1, 0.4, 0.3]).status == FAILED


def unlike(**means):
    return {f"unlike_{kind}": {"measure.similar": around(0.9 if kind != "none" else similar),
                               "measure.dissimilar": around(dissimilar)}
            for kind, (similar, dissimilar) in means.items()}  # fmt: skip


def test_the_rule_is_rigid_if_learned_projections_solve_the_task(study, tmp_path):
    judge = lambda margin="", **means: with_margin(study, "basic-is-rigid", unlike(**means), margin, tmp_path).status
    good = {"none": (0.1, 0.1), "basic": (0.9, 0.1), "shared": (0.9, 0.1), "learned": (0.9, 0.9)}
    assert judge(**good) == UNTESTED  # "sees nothing there" needs a margin
    assert judge(margin="0.05", **good) == HELD
    assert judge(margin="0.05", **{**good, "shared": (0.9, 0.5)}) == FAILED
    assert judge(**{**good, "learned": (0.9, 0.11)}) == FAILED
    assert judge(**{**good, "none": (0.9, 0.1)}) == FAILED  # the rule finds nothing even where it should


def inputs(**gaps):
    kinds = lambda gap: {"none": 0.4, "basic": 0.5, "learned": 0.5 + gap}
    return {f"{name}_{kind}": {"measure.accuracy": around(value)}
            for name, gap in gaps.items() for kind, value in kinds(gap).items()}  # fmt: skip


def test_outside_of_language_the_gap_has_to_be_clear_and_larger(study):
    judge = lambda **gaps: study.verdicts["basic-fails-outside-language"](results_of(inputs(**gaps)))
    wide = {"digits": 0.2, "largest": 0.3, "count": 0.2, "duplicate": 0.2}
    assert judge(sentences=0.0, **wide).status == HELD
    partly = judge(sentences=0.25, **wide)
    assert partly.status == FAILED and clear_cases(partly) == ["numbers, the largest"]
    assert judge(sentences=0.0, **dict.fromkeys(wide, 0.01)).status == FAILED
    assert judge(sentences=0.4, **wide).status == FAILED
