"""The two tables of T5: their rows, the meaning of "from scratch", and conclusions from made-up numbers."""

import dataclasses

import jax
import numpy as np
import pytest
from results_of import clear_cases, results_of

from attention_research.config import build_experiment, resolve
from attention_research.layers.structure import abstract
from attention_research.studies.trials import configuration, plan
from tests.tiers import fast_are

SCALES = ("smoke", "cpu", "paper")
CELLS = [f"{task}-{labels}.accuracy" for task in ("topic", "sentiment") for labels in (100, 400, 1600)]


def parameters(study, scale):
    """Row -> its number of parameters."""
    found = {}
    for row in study.rows_at(scale):
        parts = build_experiment(configuration(study, scale, row))
        _, arrays, _ = abstract(lambda rngs, parts=parts: parts.model(rngs=rngs))
        found[row.id] = sum(x.size for x in arrays.values())
    return found


@pytest.mark.parametrize("scale", fast_are(["paper"], SCALES))
def test_parameters_are_those_of_the_architectures(studies, scale):
    """A single stack has the parameters of an encoder-decoder without its encoder, cross-attention and a bias table."""
    study = studies["t5_2020/architectures"]
    count = parameters(study, scale)
    model = configuration(study, scale, study.rows[0]).resolved["model"]
    layers, width, hidden = model["num_layers"], model["width"], model["feed_forward"]["hidden_width"]
    attention, vocabulary = 4 * width * model["num_heads"] * model["head_width"], 32128 if scale == "paper" else None
    encoder = layers * (attention + 2 * width * hidden + 2 * width) + width + 32 * model["num_heads"]
    cross = layers * (attention + width)
    assert count["encoder_decoder"] - count["encoder_decoder_shared"] == layers * (
        attention + 2 * width * hidden + 2 * width
    )
    assert count["encoder_decoder"] - count["language_model"] == encoder + cross
    assert count["prefix_lm"] == count["language_model"] == count["language_model_scratch"]
    tables = count["encoder_decoder"] - encoder - (encoder + cross)
    assert vocabulary is None or tables == vocabulary * width
    halved = encoder + cross - width - 32 * model["num_heads"] + encoder - width - 32 * model["num_heads"]
    assert count["encoder_decoder"] - count["encoder_decoder_half"] == halved // 2


def test_a_row_reads_what_its_architecture_can_read(studies):
    said = {
        row.id: configuration(studies["t5_2020/architectures"], "cpu", row).resolved["data"]["objective"]["kind"]
        for row in studies["t5_2020/architectures"].rows_at("cpu")
    }
    assert {row for row, kind in said.items() if kind == "language_model"} == {"language_model_lm"}
    prefix = {row for row, kind in said.items() if kind == "prefix_language_model"}
    assert prefix == {"encoder_decoder_lm", "prefix_lm_lm"}


@pytest.mark.slow
def test_fine_tunings_are_alike_for_all_rows(studies):
    """Steps, learning rate and labels are the same for all rows, also from scratch. The vocabulary is the row's own."""
    for study in (studies[f"t5_2020/{name}"] for name in ("objectives", "architectures")):
        told = {}
        for trial in plan(study, "cpu", study.rows_at("cpu"), 1, "0" * 12):
            tuned = [resolve(stage["settings"]["given"]).resolved for stage in trial.stages[1:]]
            told[trial.row] = [(one["training"], one["data"]) for one in tuned]
            labels = [one["data"]["train_examples"] for one in tuned]
            assert labels == 2 * [100, 400, 1600] and {one["training"]["steps"] for one in tuned} == {400}
        first = told["scratch" if "scratch" in told else "encoder_decoder"]
        # A fine-tuning that starts from another fine-tuning's parameters would share nothing but the folder's location.
        assert all(one == first for one in told.values())


@pytest.mark.slow
def test_from_scratch_parameters_are_untrained(studies, tmp_path):
    from attention_research.training.evaluation import Trained
    from attention_research.training.run import train

    study = studies["t5_2020/objectives"]
    (scratch,) = [row for row in study.rows if row.id == "scratch"]

    def trained(name, row, steps):
        config = configuration(study, "smoke", row).override([("training.steps", steps)])
        train(config, tmp_path / name, lambda line: None)
        return jax.device_get(Trained(tmp_path / name).model()[0])

    once, thrice = trained("once", scratch, 1), trained("thrice", scratch, 3)
    moved = trained("moved", study.rows[0], 1)
    assert all(np.array_equal(x, once[name]) for name, x in thrice.items())
    assert not all(np.array_equal(x, once[name]) for name, x in moved.items())


def made(study, accuracy):
    """Results with these accuracies at every number of labels and three seeds per point, as if all had learned."""
    numbers = {row: {cell: [value - 1, value, value + 1] for cell in CELLS} for row, value in accuracy.items()}
    return dataclasses.replace(results_of(numbers), study=dataclasses.replace(study, competence=()))


def test_verdicts_follow_the_numbers(studies):
    judge = studies["t5_2020/objectives"].verdicts["pretrain-then-finetune"]
    rows = [row.id for row in studies["t5_2020/objectives"].rows]
    better = made(studies["t5_2020/objectives"], {row: 50 if row == "scratch" else 80 for row in rows})
    worse = made(studies["t5_2020/objectives"], {row: 80 if row == "scratch" else 50 for row in rows})
    assert (judge(better).status, judge(worse).status) == ("held", "did not hold")
    mixed = made(studies["t5_2020/objectives"], {row: 80 if row == "span_corruption" else 50 for row in rows})
    said = judge(mixed)
    assert said.status == "did not hold" and "span_corruption, topic-100: accuracy 80" in said.because
    assert clear_cases(said) == [name for name in said.cases if name.startswith("span_corruption")]
    judge = studies["t5_2020/architectures"].verdicts["pretraining-architectures"]
    rows = [row.id for row in studies["t5_2020/architectures"].rows]
    half = {row: 80 if row in ("prefix_lm", "prefix_lm_lm") else 50 for row in rows}
    said = judge(made(studies["t5_2020/architectures"], half))
    assert said.status == "did not hold"
    assert {name.split(",")[0] for name in clear_cases(said)} == {"prefix_lm", "prefix_lm_lm"}


def test_the_picture_has_one_line_per_row(studies, tmp_path):
    study = studies["t5_2020/objectives"]
    results = dataclasses.replace(
        made(study, {"span_corruption": 80, "scratch": 50}), rows=(study.rows[0], study.rows[-1])
    )
    figure = study.figures[0](results, tmp_path)
    assert figure.path.stat().st_size > 10_000
    assert study.figures[0](dataclasses.replace(results, entries=()), tmp_path) is None
