"""A whole run in process, on TFDS's mock of wmt14_translate/fr-en: train, continue, refuse, evaluate, generate."""

import json

import jax
import numpy as np
import pytest

from attention_research.config import ConfigError, load
from attention_research.errors import RunError
from attention_research.training.evaluation import Trained, evaluate
from attention_research.training.run import train
from attention_research.training.workdir import locked, read_metrics

SMALL = (
    ("max_length", 61), ("vocabulary_size", 8000), ("model.width", 8), ("model.num_heads", 2), ("model.num_layers", 1),
    ("model.feed_forward.hidden_width", 8), ("training.batch_size", 4), ("training.log_every", 1),
    ("training.checkpoint_every", 2), ("training.eval_every", 4), ("training.eval_batches", 1),
    ("evaluation.average", 1),
)  # fmt: skip


def config(steps, *overrides):
    """The paper's base config on wmt14_translate/fr-en, cut down to a test's size."""
    pair = (("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"))
    return load(
        "configs/translation/transformer.py:vaswani_base", (*pair, *SMALL, ("training.steps", steps), *overrides)
    )


@pytest.fixture(scope="module", autouse=True)
def mock(tmp_path_factory, root):
    """Mock data, a private data folder, the repository's root as the current folder."""
    import tensorflow_datasets as tfds

    with pytest.MonkeyPatch.context() as patch, tfds.testing.mock_data(num_examples=19):
        patch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path_factory.mktemp("data")))
        patch.chdir(root)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of 6 steps, uninterrupted: (workdir, summary)."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    return workdir, train(config(6), workdir)


def parameters(workdir):
    return {name: np.asarray(x) for name, x in Trained(workdir).state["parameters"].items()}


def test_wmt14_trains_from_packed_rows(whole):
    workdir, summary = whole
    lines = read_metrics(workdir)
    assert [line["step"] for line in lines if line["split"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["split"] == "validation"] == [4, 6]
    assert all(np.isfinite(line["loss"]) and line["seed"] == 0 and line["tokens"] > 0 for line in lines)
    assert summary["steps"] == 6 and summary["steps_per_second"] > 0
    environment = json.loads((workdir / "environment.json").read_text())
    assert environment["versions"]["jax"] == jax.__version__ and environment["mesh"]["data"] == 1
    assert json.loads((workdir / "config.json").read_text())["resolved"]["data"]["batching"]["kind"] == "packed"


def test_a_continued_run_is_the_uninterrupted_one_bit_for_bit(whole, tmp_path):
    """3 steps (a checkpoint at 2 and at the last, 3), then the same command for 6: losses and parameters are equal."""
    workdir = tmp_path / "run"
    train(config(3), workdir)
    train(config(6), workdir)
    losses = lambda folder: [line["loss"] for line in read_metrics(folder) if line["split"] == "train"]
    assert losses(workdir) == losses(whole[0])
    ours, theirs = parameters(workdir), parameters(whole[0])
    assert ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


def test_a_finished_run_does_nothing_more(whole):
    before = (whole[0] / "metrics.jsonl").read_text()
    assert train(config(6), whole[0])["steps"] == 6
    assert (whole[0] / "metrics.jsonl").read_text() == before


def test_another_config_is_refused_with_the_difference(whole):
    with pytest.raises(ConfigError, match=r"another config \(model.dropout_rate: 0.1 -> 0.2.*\)"):
        train(config(6, ("model.dropout_rate", 0.2)), whole[0])
    with pytest.raises(ConfigError, match="training.steps: 6 -> 5"):
        train(config(5), whole[0])


def test_a_second_process_is_refused(whole):
    with locked(whole[0]), pytest.raises(RunError, match="another process works there"):
        train(config(6), whole[0])


def test_replicas_are_logged_by_seed(tmp_path):
    train(config(2, ("training.replicas", 2), ("training.seed", 7)), tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run") if line["split"] == "train"]
    assert [(line["step"], line["seed"]) for line in lines] == [(1, 7), (1, 8), (2, 7), (2, 8)]
    assert lines[0]["loss"] != lines[1]["loss"]


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(tmp_path):
    with pytest.raises(RunError, match=r"step \d+, seed 0: the loss is (nan|inf)"):
        train(config(50, ("training.learning_rate", 1e30), ("training.eval_every", 50)), tmp_path / "run")


def test_evaluation_and_generation(whole):
    workdir, _ = whole
    result = evaluate(workdir)
    assert result == json.loads((workdir / "evaluation.json").read_text())
    assert result["sentences"] == 19 and "tok:13a" in result["signature"] and 0 <= result["bleu"] <= 100
    assert result["perplexity"] == pytest.approx(np.exp(result["negative_log_likelihood"]))
    assert result["unigram_perplexity"] > 1 and result["step"] == 6
    translations = Trained(workdir).translate(["un deux trois", "a" * 500])
    assert len(translations) == 2 and all(isinstance(text, str) for text in translations)


def test_generation_needs_a_checkpoint(whole, tmp_path):
    (tmp_path / "config.json").write_text((whole[0] / "config.json").read_text())
    with pytest.raises(RunError, match="no finished checkpoint"):
        Trained(tmp_path)
