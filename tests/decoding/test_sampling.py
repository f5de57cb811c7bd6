"""Sampling against exact distributions by enumeration, and the truncations against a loop in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from table_model import TableModel, batch_of, greedy_by_hand, hypothesis

from attention_research.decoding import Sampling
from attention_research.decoding.sampling import truncated

SOURCES = [[5, 3, 4, 2], [4, 2], [3, 3, 3, 6, 5, 2]]


def searching(model, *, max_length=6, **settings):
    """A function from a batch to the search results."""
    return jax.jit(lambda source: Sampling(extra_length=2, **settings)(model, source, max_length=max_length))


def decode(model, sources, **settings):
    return searching(model, **settings)(batch_of(sources))


def truncated_by_hand(p, temperature, top_k, top_p):
    """Float64 probabilities: power 1/temperature, the k largest, then the shortest prefix that reaches top_p."""
    p = p ** (1 / temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    kept = order[: top_k or len(p)]
    q = np.zeros_like(p)
    q[kept] = p[kept] / p[kept].sum()
    if top_p is not None:
        total, nucleus = 0.0, []
        for token in kept:
            if total >= top_p:
                break
            nucleus.append(token)
            total += q[token]
        q = np.where(np.isin(np.arange(len(p)), nucleus), q, 0.0)
    return q / q.sum()


TRUNCATIONS = list(itertools.product((1.0, 0.5, 1.7), (None, 1, 3, 40), (None, 0.05, 0.6, 0.95, 1.0)))


def test_truncation_is_the_loop():
    p = np.random.default_rng(0).dirichlet(np.full(17, 0.5), size=5)
    for temperature, top_k, top_p in TRUNCATIONS:
        ours = jax.nn.softmax(truncated(jnp.log(jnp.asarray(p, jnp.float32)), temperature, top_k, top_p))
        theirs = [truncated_by_hand(row, temperature, top_k, top_p) for row in p]
        np.testing.assert_allclose(ours, theirs, atol=2e-6, err_msg=f"{temperature} {top_k} {top_p}")


def test_forbidden_tokens_are_not_drawn():
    logits = truncated(jnp.array([[-jnp.inf, 0.0, -1.0, -jnp.inf]]), 0.3, 3, 0.99)
    assert np.isneginf(np.asarray(logits)[0, [0, 3]]).all() and np.isfinite(np.asarray(logits)[0, 1])


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.6}, {"top_k": 2}, {"top_p": 0.7, "temperature": 1.5}], ids=str
)
def test_hypotheses_have_their_exact_frequencies(settings):
    """Enumerates every hypothesis of up to three tokens. 40,000 draws lie within five standard errors."""
    model, source, draws, limit = TableModel(6, seed=3, eos=1.0), [5, 2], 40_000, 3
    decoded = decode(model, [source], num_samples=draws, max_length=limit, **settings)
    found: dict[tuple, int] = {}
    for tokens, length in zip(np.asarray(decoded.tokens[0]), np.asarray(decoded.lengths[0]), strict=True):
        key = tuple(tokens[:length].tolist())
        found[key] = found.get(key, 0) + 1
    expected = {}
    for y in model.every_hypothesis(source, limit):
        p = 1.0
        for n, token in enumerate(y):
            following = np.exp(model.next_log_probabilities(source, y[:n]))
            following[:2] = 0.0
            how = (settings.get("temperature", 1.0), settings.get("top_k"), settings.get("top_p"))
            q = truncated_by_hand(following / following.sum(), *how)
            p *= 1.0 if n + 1 == limit else q[token]
        expected[tuple(y)] = p
    assert sum(expected.values()) == pytest.approx(1.0) and found.keys() <= expected.keys()
    for y, p in expected.items():
        assert abs(found.get(y, 0) / draws - p) <= 5 * np.sqrt(p * (1 - p) / draws) + 1e-9, (y, p)


def test_scores_are_the_models_own_and_samples_differ():
    model = TableModel(11, seed=1, eos=-1.0)
    decoded = decode(model, SOURCES, num_samples=5, top_k=4, temperature=2.0, max_length=8)
    for row, source in enumerate(SOURCES):
        drawn = [hypothesis(decoded, row, rank) for rank in range(5)]
        assert len(set(map(tuple, drawn))) > 1
        own = [model.log_probability(source, y) for y in drawn]
        np.testing.assert_allclose(decoded.scores[row], own, rtol=1e-5)


@pytest.mark.slow
def test_a_rows_draws_do_not_depend_on_the_others_but_on_the_seed():
    model = TableModel(11, seed=4, eos=-1.0)
    run, order = searching(model, num_samples=3), [2, 0, 1]
    alone = [run(batch_of([source], 6)) for source in SOURCES]
    together = run(batch_of([SOURCES[i] for i in order] + [[]], 11))
    for row, i in enumerate(order):
        for one, all_rows in zip(alone[i], together, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row])
    other = decode(model, SOURCES, num_samples=3, seed=7)
    assert (np.asarray(other.tokens) != np.asarray(together.tokens)[[1, 2, 0]]).any()


def test_pictures_with_the_same_sums_have_other_samples():
    """The two pictures have equal sums of pixels, and equal sums of pixels times their places."""
    one = np.array([[0, 3, 0, 3], [0, 0, 0, 0]], np.uint8).reshape(1, 2, 4, 1)
    other = np.array([[1, 0, 3, 2], [0, 0, 0, 0]], np.uint8).reshape(1, 2, 4, 1)
    sums = lambda image: (int(image.sum()), int(image.ravel() @ np.arange(1, 9)))
    assert sums(one) == sums(other) == (6, 18)
    keys = [Sampling().start({"image": image}) for image in (one, other, one)]
    drawn = [jax.random.key_data(key).tolist() for key in keys]
    assert drawn[0] == drawn[2] != drawn[1]


def test_the_best_token_alone_is_greedy():
    model = TableModel(11, seed=5)
    decoded = decode(model, SOURCES, top_k=1, max_length=20)
    assert [hypothesis(decoded, row) for row in range(3)] == [greedy_by_hand(model, s, len(s) + 2) for s in SOURCES]
