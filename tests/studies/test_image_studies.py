"""The image studies: every claim has a verdict; verdicts on made-up numbers, measures on made-up arrays."""

import numpy as np
import pytest
from results_of import measured, results_of

from attention_research.experiments.hu2018 import gate_measures
from attention_research.experiments.xu2015 import caption_measures
from attention_research.studies.verdicts import FAILED, FIGURE, HELD, UNTESTED

NAMES = (
    "he2015/degradation", "hu2018/se", "woo2018/cbam", "li2018/landscape", "xu2015/table1", "xu2015/figures",
    "xu2015/bottleneck", "lectures/image_qa", "lectures/convolution",
)  # fmt: skip


def seeds(value):
    return [0.99 * value, value, 1.01 * value]


def status(study, claim, **rows):
    """The verdict from row -> {number of a stage: its mean}, with three seeds around each mean."""
    numbers = {row: {key: value if isinstance(value, list) else seeds(value) for key, value in columns.items()}
               for row, columns in rows.items()}  # fmt: skip
    return study.verdicts[claim](results_of(numbers)).status


def errors(**rows):
    return {row: {"measure.train_error": value, "measure.test_error": value + 0.1} for row, value in rows.items()}


@pytest.mark.slow
def test_plain_networks_have_to_degrade_in_training(studies):
    judge = lambda claim, **rows: status(studies["he2015/degradation"], claim, **errors(**rows))
    good = {"plain_20": 0.1, "plain_56": 0.3, "residual_20": 0.1, "residual_56": 0.1}
    assert judge("degradation-problem", **good) == HELD
    assert judge("degradation-problem", **{**good, "plain_56": 0.1}) == FAILED
    assert judge("degradation-figure", **good) == HELD and judge("degradation-figure", plain_20=0.1) == UNTESTED
    study = studies["he2015/degradation"]
    exact = lambda **numbers: status(study, "residual-learns-difference", exact_residual={
        f"measure.{name}": [value] for name, value in numbers.items()
    })  # fmt: skip
    found = measured(study, "exact_residual")
    assert exact(**found) == HELD and exact(**{**found, "zero_difference": 0.1}) == FAILED
    assert exact(**measured(study, "exact_plain")) == FAILED


def test_gates_have_to_beat_a_wider_network_too(studies):
    judge = lambda **rows: status(
        studies["hu2018/se"], "channel-attention", **{row: {"evaluate.accuracy": v} for row, v in rows.items()}
    )
    assert judge(none=70, wider=71, squeeze_excitation=80, channel=80) == HELD
    assert judge(none=70, wider=85, squeeze_excitation=80, channel=80) == FAILED
    assert judge(none=90, wider=90, squeeze_excitation=80, channel=80) == FAILED


def test_spatial_gates_have_to_look_at_the_object_and_help(studies):
    form = lambda accuracy, mass: {"evaluate.accuracy": accuracy, "measure.mass": mass, "measure.area": [1 / 9] * 3}

    def judge(written, released=None):
        rows = {row: {"evaluate.accuracy": 80.0} for row in ("none", "wider")}
        rows |= {"spatial": form(*written)} | ({} if released is None else {"spatial_released": form(*released)})
        return status(studies["woo2018/cbam"], "spatial-attention", **rows)

    sees, looks, better, bad = (90, 0.3), (80, 0.3), (90, 0.1), (80, 0.1)
    assert [judge(form) for form in (sees, better, looks, bad)] == [HELD, FAILED, FAILED, FAILED]
    assert (judge(sees, bad), judge(bad, sees), judge(bad, looks)) == (HELD, FAILED, FAILED)


def test_smoothness_means_less_negative_curvature_and_roughness(studies):
    def judge(residual, plain, depths=(20, 56)):
        rows = {f"{kind}_{depth}": {"measure.negative": value, "measure.roughness": value}
                for depth in depths for kind, value in (("residual", residual), ("plain", plain))}  # fmt: skip
        return status(studies["li2018/landscape"], "residuals-smooth-landscape", **rows)

    assert (judge(0.1, 0.4), judge(0.4, 0.1), judge(0.1, 0.4, (56,))) == (HELD, FAILED, UNTESTED)


def test_claims_about_captions_are_judged(studies):
    table = lambda claim, **rows: status(studies["xu2015/table1"], claim, **rows)
    bleu = lambda value: {f"evaluate.bleu_{n}": value for n in range(1, 5)}
    assert table("caption-hard-against-soft", soft=bleu(50), hard=bleu(60)) == FIGURE
    assert table("caption-hard-against-soft", soft=bleu(50)) == UNTESTED
    named = lambda **rows: {row: {"measure.named": value} for row, value in rows.items()}
    assert table("caption-looks-once", **named(soft=0.9, once=0.5, every_word=0.5)) == HELD
    assert table("caption-looks-once", **named(soft=0.9, once=0.5, every_word=0.95)) == FAILED
    features = lambda frozen, pretrained, joint: table(
        "caption-pretrained-features", frozen=bleu(frozen), soft=bleu(joint), pretrained={"captions.bleu_4": pretrained}
    )
    assert (features(20, 60, 60), features(20, 60, 80), features(60, 20, 60)) == (UNTESTED, UNTESTED, FAILED)
    seen = {"measure.named": 0.9, **bleu(60), "evaluate.other_bleu_4": 10}
    cut = lambda left: {"measure.cut": [left], "measure.whole": [0.5]}
    assert table("caption-by-cross-attention", transformer=seen, cut=cut(0.0)) == HELD
    assert table("caption-by-cross-attention", transformer=seen, cut=cut(0.1)) == FAILED


def test_claims_about_attention_to_objects_are_judged(studies):
    def judge(claim, **numbers):
        base = {"pointing": 0.8, "mass": 0.6, "uniform": 0.11, "centre": 0.12, "moves": 1.0, "moves_within": 0.2,
                "moves_between": 1.2, "moves_shuffled": 1.1}  # fmt: skip
        rows = {f"measure.{name}": value for name, value in {**base, **numbers}.items()}
        return status(studies["xu2015/figures"], claim, **dict.fromkeys(models, rows))

    models = ("soft", "stochastic", "hard")
    assert judge("caption-attends-right-region") == HELD and judge("caption-gaze-moves") == HELD
    assert judge("caption-attends-right-region", pointing=0.1) == FAILED
    assert judge("caption-gaze-moves", moves_within=2.0) == FAILED
    models = ("soft", "hard")
    assert judge("caption-attends-right-region") == UNTESTED and judge("caption-gaze-moves") == UNTESTED


def test_a_bottleneck_has_to_narrow_with_the_number_of_objects(studies):
    def judge(few, many):
        def row(first, last):
            by_objects = [{"1": f, "9": l} for f, l in zip(seeds(first), seeds(last), strict=True)]
            return {"measure.named": (first + last) / 2, "measure.named_by_objects": by_objects}

        rows = {"attention": row(0.9, 0.8), "once": row(few, many), "every_word": row(few, many)}
        return status(studies["xu2015/bottleneck"], "caption-bottleneck", **rows)

    assert (judge(0.8, 0.2), judge(0.5, 0.5), judge(0.95, 0.9)) == (HELD, FAILED, FAILED)


def test_claims_about_questions_are_judged(studies):
    def judge(right, mass):
        forms = {f"measure.right_{form}": 0.5 for form in ("place", "colour", "count")}
        rows = {"cross_attention": {"measure.right": right, "measure.mass": mass, "measure.even": [1 / 9] * 3, **forms},
                "pooled": {"measure.right": 0.5, **forms}}  # fmt: skip
        return status(studies["lectures/image_qa"], "cross-attention-two-modalities", **rows)

    assert (judge(0.9, 0.4), judge(0.9, 0.1), judge(0.5, 0.1)) == (HELD, FAILED, FAILED)


def test_attention_measures_of_made_up_captioners():
    """Two pictures with four places in four cells: one captioner looks at the right place, one never does."""
    cells = np.array([0, 2, 2, 0, 3])
    right = np.eye(4)[[0, 1, 1, 0, 2]]
    wrong = np.eye(4)[[1, 3, 3, 1, 3]]
    good, bad = (caption_measures.looked([(weights, cells)], 2) for weights in (right, wrong))
    assert (good["pointing"], good["mass"]) == (1, 1) and (bad["pointing"], bad["mass"]) == (0, 0)
    assert good["moves_within"] == 0 and good["moves_between"] == pytest.approx((1 + 1 + 1) / 3)
    assert good["uniform"] == 0.25


def test_content_measures_of_made_up_captions():
    class Trained:
        class data:  # noqa: N801
            @staticmethod
            def references(split):
                return [["a large red seven and a small blue two"], ["a small red one"]]

    said = {0: "a large red seven and a small blue four", 1: "a small green one"}
    found = caption_measures.written(Trained, said)
    assert found["named"] == 0.25 and found["named_by_objects"] == {"1": 0.0, "2": 0.5}
    assert found["words"] == pytest.approx((8 + 3) / 13)
    assert len(found["words_by_index"]) == len(found["index"]) and found["index"][-1] == 9


def test_gate_maps_over_their_cell():
    maps = np.zeros((2, 6, 6))
    maps[0, :2, :2], maps[1, 2:4, 4:] = 1, 0.5
    maps[1, 0, 0] = 2.0
    np.testing.assert_allclose(gate_measures.mass(maps, np.array([1, 6]), 3), [1.0, 0.5])
    assert gate_measures.explained(np.array([[1.0], [1.0], [3.0], [3.0]]), np.array([0, 0, 1, 1])) == 1.0
