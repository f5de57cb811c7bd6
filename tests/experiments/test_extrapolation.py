"""Losses on rows of another length, against the model on a text cut by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import load
from attention_research.experiments.press2022.measures import losses_at, measure_lengths
from attention_research.training.evaluation import Trained
from attention_research.training.run import train

pytestmark = [pytest.mark.data, pytest.mark.slow]


@pytest.fixture(scope="module")
def workdir(root, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        config = load("configs/language_modelling/transformer.py:smoke")
        given = {"max_length": 64, "data.max_length": 16, "model.self_attention.kind": "alibi"}
        config = config.override([*given.items(), ("model.positions.kind", "none")])
        folder = tmp_path_factory.mktemp("extrapolation") / "run"
        train(config, folder, lambda line: None)
    return folder


def test_losses_equal_those_on_text_cut_by_hand(workdir):
    trained = Trained(workdir)
    length, rows = 48, 3
    got = losses_at(trained, length, tokens=rows * length)
    data = trained.data
    tokens = np.concatenate([data.chunks("test").documents[n] for n in data.chunks("test").order])
    cut = np.stack([[*tokens[i * (length - 1) : (i + 1) * (length - 1)], 2] for i in range(rows)])
    merge = trained.trainer.structure.merge
    run = jax.jit(lambda arrays, target: merge(*arrays).log_likelihood({"target": target})[0]["log_likelihood"])
    values = run(trained.model(), jnp.asarray(cut, jnp.int32))
    np.testing.assert_allclose(got, -np.asarray(values, np.float64).mean(axis=0), rtol=1e-4)


def test_its_numbers_are_perplexities_and_their_ratios(workdir):
    found = measure_lengths(workdir=workdir, seed=0, factors=(1, 4), tokens=256, blocks=4)
    assert found["ratio_4"] == found["perplexity_4"] / found["perplexity_1"] and len(found["by_place"]) == 4
    np.testing.assert_allclose(np.exp(np.mean(found["by_place"])), found["perplexity_4"], rtol=1e-6)
