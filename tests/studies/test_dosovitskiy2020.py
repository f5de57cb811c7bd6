"""`dosovitskiy2020/table1` and `data_size`: counts, the measures of attention rollout, and verdicts by hand."""

import json

import numpy as np
import pytest
from results_of import declared, results_of

from attention_research.experiments.dosovitskiy2020.image_rollout import over_patches, shows_object
from attention_research.studies.comparisons import REVERSED
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED

STUDY = "dosovitskiy2020/data_size"

CLAIM = "attention-beyond-rnn"
SIZES = (250, 1000, 4000, 16_000)


def counted(variant):
    """Parameters by the paper's equations 1 to 4 and section 3.1: (with the head, without it)."""
    patch, layers, width, hidden = {
        "b16": (16, 12, 768, 3072), "b32": (32, 12, 768, 3072), "l16": (16, 24, 1024, 4096),
        "l32": (32, 24, 1024, 4096), "h14": (14, 32, 1280, 5120),
    }[variant]  # fmt: skip
    embedding = (patch * patch * 3 + 1) * width + width + ((224 // patch) ** 2 + 1) * width
    block = 4 * (width + 1) * width + (width + 1) * hidden + (hidden + 1) * width + 4 * width
    body = embedding + layers * block + 2 * width
    return {"parameters": body + (width + 1) * 1000, "without_head": body}


@pytest.mark.parametrize("variant", ["b16", "b32", "l16", "l32", "h14"])
def test_counts_are_the_closed_form_and_the_known_ones(studies, variant, tmp_path):
    study = studies["dosovitskiy2020/table1"]
    (row,) = study.rows_at("paper", [variant])
    config = configuration(study, "paper", row)
    (tmp_path / "trial.json").write_text(json.dumps({"given": config.given}))
    (stage,) = row.stages
    found = stage.function(workdir=tmp_path, seed=0)
    assert found == counted(variant) and stage.function(workdir=tmp_path, seed=1) == {}
    known = {"b16": 86_567_656, "l16": 304_326_632, "h14": 632_045_800}
    assert found["parameters"] == known.get(variant, found["parameters"])


def test_the_published_307_is_not_the_count_of_l16():
    """86 is B/16 without a head and 632 is H/14 with one. L/16 rounds to 304 and 303, but L/32 rounds to 307."""
    millions = lambda variant: {round(count / 1e6) for count in counted(variant).values()}
    assert 86 in millions("b16") and 632 in millions("h14")
    assert millions("l16") == {304, 303} and 307 in millions("l32")


@pytest.mark.parametrize("name", ["dosovitskiy2020/table1", STUDY])
def test_every_row_resolves_at_every_scale(name, studies):
    either = studies[name]
    for scale in either.scales:
        for row in either.rows_at(scale):
            resolved = configuration(either, scale, row).resolved
            model, _, size = row.id.partition("_")
            assert resolved["model"]["kind"] == ("image_classifier" if model == "cnn" else "vision_transformer")
            if row.stages[0].kind == "train":
                augmented = resolved["data"]["augmentation"] == "flip_and_shift"
                assert augmented == row.id.endswith("_augmented")
                pooling = resolved["model"]["pooling"]
                assert ("attention" in size) == (model == "cnn" and pooling["kind"] == "qkv")
                examples = resolved["data"]["train_examples"]
                assert examples == 64 if scale == "smoke" else str(examples) in row.id


def test_rollout_gives_the_share_of_each_patch_in_the_class_token():
    """Two layers in which the class token reads one patch directly, or through another patch."""
    weights = np.zeros((2, 1, 5, 5))
    weights[:, 0] = np.eye(5)
    weights[1, 0, 0] = np.eye(5)[3]
    token = np.eye(5)[0]
    np.testing.assert_allclose(over_patches(weights, token), [[0, 0], [1, 0]])
    weights[0, 0, 3] = np.eye(5)[2]  # half of patch 3's content then comes from patch 2
    np.testing.assert_allclose(over_patches(weights, token), [[0, 0.5], [0.5, 0]])
    patches = weights[:, :, 1:, 1:]
    assert over_patches(patches, np.full(4, 0.25)).sum() == pytest.approx(1)


def test_pixels_that_are_not_black_are_the_object():
    image = np.zeros((6, 6, 1), np.uint8)
    image[2:4, 4:] = 200
    np.testing.assert_array_equal(np.flatnonzero(shows_object(image, 3)), [5])


def trained(vit, cnn, attention, **others):
    """Three seeds for each row around these means at each size."""
    near = lambda mean: {"evaluate.accuracy": [mean - 0.1, mean, mean + 0.1], "evaluate.majority_accuracy": 3 * [10.0]}
    rows = {f"{model}_{size}": near(value)
            for model, values in (("vit", vit), ("cnn", cnn), ("cnn_attention", attention))
            for size, value in zip(SIZES, values, strict=True)}  # fmt: skip
    return results_of({**rows, **{name: near(value) for name, value in others.items()}})


GOOD, BETTER = (60, 70, 80, 88), (75, 80, 85, 89)


def test_patches_have_to_be_learned_and_stand_beside_a_cnn(study):
    judge = lambda *values, **others: study.verdicts[CLAIM](declared(study, trained(*values, **others)))
    held = judge(GOOD, BETTER, BETTER, vit_250_augmented=65, cnn_250_augmented=76)
    assert held.status == HELD
    assert "the CNN above the ViT by +15.0 at 250, +10.0 at 1,000, +5.0 at 4,000, +1.0 at 16,000" in held.because
    assert "with flips and shifts by +11.0 at 250" in held.because
    assert judge(BETTER, GOOD, GOOD).status == HELD
    far = judge((60, 70, 80, 84), BETTER, BETTER)
    assert far.status == FAILED and far.cases["ViT near the CNN"].outcome == REVERSED
    assert judge((10, 70, 80, 88), BETTER, BETTER).status == FAILED
    assert judge(GOOD, BETTER, (10, 80, 85, 89)).status == FAILED
    one = {
        row: {"evaluate.accuracy": [80.0], "evaluate.majority_accuracy": [10.0]} for row in ("vit_16000", "cnn_16000")
    }
    assert study.verdicts[CLAIM](results_of(one)).status == UNTESTED
    assert study.verdicts[CLAIM](results_of({"vit_250": {"evaluate.accuracy": [50.0]}})).status == UNTESTED
