"""Questions about pictures: the reader and the readout in float64, padding, and each reader's use of positions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.layers.structure import abstract, initializer

WIDTH, HEADS, LENGTH, CELLS = 12, 3, 7, 9


@functools.cache
def model(reader):
    """(structure, parameters, statistics). No parameter is 0 or 1."""
    section = {
        "kind": "image_question_classifier", "width": WIDTH, "num_layers": 1, "num_heads": HEADS, "num_classes": 5,
        "readout_width": 11, "dropout_rate": 0.0, "feed_forward": {"hidden_width": 17},
        "features": {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1},
        "places": {"kind": "learned", "max_length": CELLS}, "reader": {"kind": reader},
    }  # fmt: skip
    make = build_model(section, side=5, channels=3, max_length=LENGTH, vocabulary_size=29)
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
    start = initializer(lambda rngs: make(rngs=rngs))
    statistics = jax.jit(lambda key: start(key)[1])(jax.random.key(0))
    rng = np.random.default_rng(1)
    value = lambda x: (
        rng.normal(size=x.shape) * (x.shape[-2] ** -0.5 if x.ndim > 1 else 0.3) + 0.3 * rng.random(x.shape)
    )
    return structure, {n: jnp.asarray(value(x), x.dtype) for n, x in sorted(shapes.items())}, statistics


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    source = rng.integers(4, 29, (3, LENGTH)).astype(np.int32)
    source[1, 4:] = 0
    return {"image": jnp.asarray(rng.integers(0, 256, (3, 5, 5, 3)), jnp.uint8), "source": jnp.asarray(source)}


READERS = ["cross_attention", pytest.param("pooled", marks=pytest.mark.slow)]


def linear(w, name, x):
    return x @ np.float64(w[f"{name}.kernel"]) + np.float64(w[f"{name}.bias"])


def readout(w, words, cells, real, reader):
    """log p in float64 from the words' states [T D] and the cells with their positions [S D], for one question."""
    if reader == "pooled":
        read = linear(w, "reader.project", cells.mean(0))[None]
    else:
        q, k, v = (linear(w, f"reader.cross_attention.{name}", x).reshape(-1, HEADS, WIDTH // HEADS)
                   for name, x in (("query", words), ("key", cells), ("value", cells)))  # fmt: skip
        scores = np.einsum("tnh,snh->nts", q, k) / np.sqrt(WIDTH / HEADS)
        alpha = np.exp(scores - scores.max(-1, keepdims=True))
        alpha /= alpha.sum(-1, keepdims=True)
        read = linear(w, "reader.cross_attention.output", np.einsum("nts,snh->tnh", alpha, v).reshape(-1, WIDTH))
    x = words + read
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    x = x * np.float64(w["norm.scale"]) + np.float64(w["norm.bias"])
    logits = linear(w, "output", np.maximum(linear(w, "hidden", x[real].mean(0)), 0))
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_an_answer_is_the_equation(reader, batch):
    structure, parameters, statistics = model(reader)

    def run(batch):
        whole = structure.merge(parameters, statistics)
        log_p, aux = whole.log_probabilities(batch)
        real = batch["source"] != 0
        places = jnp.arange(LENGTH, dtype=jnp.int32)[None]
        words, _ = whole.encoder(whole.embedding(batch["source"]), places, real[:, None, None])
        grid, _ = whole.features(batch["image"])
        return log_p, aux["pooling"]["weights"], words, grid

    log_p, weights, words, grid = (np.float64(x) for x in jax.jit(run)(batch))
    cells = linear(parameters, "project", grid.reshape(3, CELLS, -1)) + np.float64(parameters["places.table"])
    for row in range(3):
        real = np.asarray(batch["source"][row]) != 0
        expected = readout(parameters, words[row], cells[row], real, reader)
        np.testing.assert_allclose(log_p[row], expected, atol=1e-4)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    assert (np.ptp(weights) < 1e-6) == (reader == "pooled")


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_padding_changes_nothing_and_every_parameter_learns(reader, batch):
    structure, parameters, statistics = model(reader)

    def loss(parameters, source, key):
        log_p, aux = structure.merge(parameters, statistics).log_probabilities({**batch, "source": source}, key=key)
        return -log_p[:, 2].sum(), (log_p, aux["updates"])

    run = jax.jit(jax.grad(loss, has_aux=True))
    gradients, _ = run(parameters, batch["source"], jax.random.key(0))
    # A key's bias adds the same number to all scores of a query, which does not change the softmax.
    silent = {name for name, x in gradients.items() if not np.any(np.abs(x) > 1e-9)}
    assert silent <= {name for name in parameters if name.endswith("key.bias")}
    ahead = jax.jit(lambda source: loss(parameters, source, None)[1][0])
    np.testing.assert_allclose(ahead(batch["source"])[1], ahead(batch["source"][:, :4])[1], atol=1e-5)
