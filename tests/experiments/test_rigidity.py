"""Basic self-attention: weights against SciPy's cosines, tasks by brute force, patches and readers by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from scipy.stats import spearmanr

from attention_research.experiments.lectures.rigidity.inputs import _numbers, open_inputs, patches
from attention_research.experiments.lectures.rigidity.parallel_tokens import agreement, basic, pulled
from attention_research.experiments.lectures.rigidity.readers import KINDS, Reader, draw, measure_unlike
from attention_research.experiments.lectures.sets.tasks import Sets

X = np.random.default_rng(0).standard_normal((7, 5))


def test_basic_attention_is_its_formula():
    y, weights = basic(X)
    for i in range(7):
        terms = [np.exp(X[i] @ X[j]) for j in range(7)]
        np.testing.assert_allclose(weights[i], np.array(terms) / sum(terms), rtol=1e-12)
        np.testing.assert_allclose(y[i], sum(t * X[j] for j, t in enumerate(terms)) / sum(terms), rtol=1e-10)


def test_agreement_is_of_the_other_tokens_ranks():
    weights = np.random.default_rng(1).random((7, 7))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    by_token = []
    for i in range(7):
        others = [j for j in range(7) if j != i]
        by_token.append(spearmanr(weights[i, others], (unit @ unit[i])[others]).statistic)
    assert agreement(weights, X) == pytest.approx(np.mean(by_token), abs=1e-12)
    assert agreement(basic(unit)[1], unit) == pytest.approx(1.0)  # for unit vectors, dot products are cosines


def test_short_vectors_become_alike_and_long_ones_stay():
    short, long = pulled(0.01 * X), pulled(100 * X)
    assert short["after"] > 0.999 and short["own"] == pytest.approx(1 / 7, abs=1e-3)
    assert long["own"] > 0.5 and short["before"] == pytest.approx(long["before"])


@pytest.mark.parametrize("wanted", ["similar", "dissimilar"])
def test_a_label_is_the_code_of_the_other_token_that_is_wanted(wanted):
    batch = draw(wanted, jax.random.key(0), 3, tokens=5, directions=4, codes=3)
    x, codes = np.asarray(batch["x"], np.float64), np.argmax(batch["x"][..., 4:], axis=-1)
    np.testing.assert_allclose(np.linalg.norm(x[..., :4], axis=-1), 2.0, rtol=1e-5)
    for row in range(3):
        for token in range(5):
            products = {other: x[row, token] @ x[row, other] for other in range(5) if other != token}
            chosen = (max if wanted == "similar" else min)(products, key=products.get)
            assert batch["label"][row, token] == codes[row, chosen]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_interact_by_attention_only(kind):
    reader = Reader(kind, width=5, inner=3, hidden=11, classes=4, pooled=False, rngs=nnx.Rngs(0))
    x, others = jnp.asarray(X[None], jnp.float32), ~jnp.eye(7, dtype=bool)[None]
    heard = jnp.abs(jax.jit(jax.grad(lambda x: reader(x, others)[0, 2].sum()))(x)).sum(axis=-1)[0]
    assert heard[2] > 0 and bool(jnp.all(heard[jnp.array([0, 1, 3])] > 0)) == (kind != "none")
    if kind in ("basic", "shared"):
        weights = np.asarray(jax.jit(lambda x: reader.attention(x, jnp.ones((1, 1, 7), bool)))(x)[1][0])
        seen = X if kind == "basic" else X @ np.asarray(reader.query.kernel[...])
        np.testing.assert_allclose(weights, basic(seen)[1], atol=1e-5)


def test_a_pooled_reader_ignores_padding():
    reader = Reader("learned", width=5, inner=3, hidden=11, classes=4, pooled=True, rngs=nnx.Rngs(0))
    x = jnp.asarray(X[None], jnp.float32)
    real = jnp.arange(7)[None, None] < 4
    heard = jnp.abs(jax.jit(jax.grad(lambda x: reader(x, real).sum()))(x)).sum(axis=-1)[0]
    assert bool(jnp.all(heard[:4] > 0)) and not heard[4:].any()


def test_patches_are_squares_in_reading_order():
    image = np.arange(784).reshape(1, 784)
    found = patches(image)
    assert found.shape == (1, 49, 16)
    assert found[0, 8].reshape(4, 4).tolist() == [[28 * (4 + r) + 4 + c for c in range(4)] for r in range(4)]


def test_vectors_of_near_numbers_are_similar():
    given = _numbers("largest", Sets(16, 4, 10), 32)
    (batch,) = given.test(jax.random.key(0))
    assert batch["x"].shape == (32, 10, given.width) and int(batch["label"].max()) < given.classes
    x = np.asarray(batch["x"][0][np.asarray(batch["real"][0])], np.float64)
    assert (np.argmax(x @ x.T, axis=1) == np.arange(len(x))).mean() > 0.3  # equal numbers have equal vectors
    with pytest.raises(ValueError, match="'words': expected one of sentences, digits, largest, count, duplicate"):
        open_inputs("words", checkpoint="", sentences="", longest=1, sets=(2, 1, 2), examples=1)


@pytest.mark.slow
def test_learned_projections_find_the_least_similar_token_and_the_rule_does_not():
    task, sizes = {"tokens": 6, "directions": 4, "codes": 4}, {"inner": 16, "hidden": 64}
    more = {"task": task, "sizes": sizes, "steps": 400, "batch_size": 64, "rate": 0.005, "seed": 0}
    basic_, learned = (measure_unlike(kind=kind, **more) for kind in ("basic", "learned"))
    assert learned["dissimilar"] > 0.8 > 0.5 > basic_["dissimilar"] and basic_["similar"] > 0.7
    assert learned["agreement_dissimilar"] < -0.5 and basic_["agreement_dissimilar"] == pytest.approx(1.0)
