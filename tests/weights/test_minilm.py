"""The real all-MiniLM-L6-v2: the similarities of the example in its model card, and a run made from it."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from attention_research.tokens import BOS, PAD
from attention_research.weights import load
from attention_research.weights.packaged import folder_of

pytestmark = [pytest.mark.slow, pytest.mark.data]
SENTENCES = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
PUBLISHED = [0.6945773, 0.9429151, 0.2568761]


def test_its_published_similarities():
    loaded = load(folder_of("all-MiniLM-L6-v2"))
    rows = [[BOS, *ids] for ids in loaded.tokenizer().encode(SENTENCES)]
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    encode = lambda parameters, tokens: loaded.structure.merge(parameters).encode({"tokens": tokens})["hidden"]
    hidden = jax.jit(encode)(loaded.parameters, tokens)
    real = (tokens != PAD)[..., None]
    means = (np.asarray(hidden) * real).sum(axis=1) / real.sum(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(means[1:] @ means[0], PUBLISHED, atol=2e-6)


def test_an_imported_run_can_be_analyzed(tmp_path):
    run = lambda *words: subprocess.run(
        [sys.executable, "-m", "attention_research", *words], capture_output=True, text=True, timeout=600
    )
    small = ["--config.data.name=reviews/rotten_tomatoes", "--config.data.max_length=32"]
    done = run("import", "all-MiniLM-L6-v2", f"--workdir={tmp_path}", *small)
    assert done.returncode == 0, done.stderr
    imported = json.loads((tmp_path / "environment.json").read_text())["imported"]
    assert "model.safetensors" in {one["file"] for one in imported}
    done = run("analyze", f"--workdir={tmp_path}", "--what=heads,spectra", "--examples=2", "--json")
    assert done.returncode == 0, done.stderr
    heads = json.loads(done.stdout)["heads"]["encoder_self_attention"]
    assert np.shape(heads["first"]) == (6, 12)
    assert np.max(heads["first"]) > 0.3 > np.max(heads["first"][0]), "middle layers attend to [CLS], the first does not"
