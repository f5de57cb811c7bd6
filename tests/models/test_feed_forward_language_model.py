"""Bengio's network: its equation in float64 NumPy, gradients by PyTorch, steps against the full pass, refusals."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError
from attention_research.layers.structure import split
from attention_research.models.feed_forward_language_model import FeedForwardLanguageModel
from attention_research.tokens import BOS

B, T, S, V, M, H = 3, 7, 5, 19, 2, 11
KINDS = {"mlp": (5, H, True), "bottleneck": (3, H, False), "linear": (4, 0, True), "bigram": (2, H, True)}
EVERY = [pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("linear", "bigram"))) for kind in KINDS]


def built(order, hidden, direct):
    """(structure, parameters): normal with deviation 0.6, so that a missing bias is noticed."""
    model = FeedForwardLanguageModel(
        vocabulary_size=V, width=M, order=order, hidden_width=hidden, direct=direct, rngs=nnx.Rngs(0)
    )
    structure, parameters, _ = split(model)
    rng = np.random.default_rng(1)
    return structure, {name: jnp.asarray(0.6 * rng.standard_normal(x.shape), x.dtype) for name, x in parameters.items()}


@pytest.fixture(scope="module")
def batch():
    """Texts of which one has no words before it, one has some, and one ends early."""
    rng = np.random.default_rng(2)
    source, target = rng.integers(4, V, (B, S)), rng.integers(4, V, (B, T))
    source[0], source[1, 2:], target[2, 5:] = 0, 0, 0
    return {"source": source, "target": target}


def loss(structure, parameters, batch):
    values, _ = structure.merge(parameters).log_likelihood(batch)
    return -jnp.sum(values["log_likelihood"], where=values["mask"]), values


@pytest.fixture(scope="module")
def ours(batch):
    """kind -> (parameters, values, gradients), each compiled once."""

    @functools.cache
    def of(kind):
        structure, parameters = built(*KINDS[kind])
        (_, values), gradients = jax.jit(jax.value_and_grad(partial(loss, structure), has_aux=True))(parameters, batch)
        return parameters, values, gradients

    return of


@pytest.mark.parametrize("kind", EVERY)
def test_it_is_the_equation_of_the_paper(kind, ours, batch):
    """y = b + W x + U tanh(d + H x), word by word."""
    order, hidden, direct = KINDS[kind]
    w = {name: np.asarray(x, np.float64) for name, x in ours(kind)[0].items()}
    inputs = (order - 1) * M
    for row in range(B):
        before = [word for word in batch["source"][row].tolist() if word]
        words = [0] * order + before + batch["target"][row].tolist()
        for t in range(T):
            now = order + len(before) + t
            x = np.concatenate([w["table"][word] for word in words[now - order + 1 : now]])
            y = w["output_bias"].copy()
            if direct:
                y += x @ w["output_kernel"][:inputs]
            if hidden:
                y += np.tanh(w["hidden_bias"] + x @ w["hidden_kernel"]) @ w["output_kernel"][-hidden:]
            log_p = y - np.log(np.sum(np.exp(y)))
            values = ours(kind)[1]
            np.testing.assert_allclose(values["log_likelihood"][row, t], log_p[words[now]], atol=2e-5)
            np.testing.assert_allclose(values["smooth_log_likelihood"][row, t], log_p.mean(), atol=2e-5)
            assert values["predicted"][row, t] == np.argmax(log_p)
            assert values["mask"][row, t] == (words[now] != 0)


def test_a_row_that_begins_within_a_text_reads_the_token_before_it():
    """As the same text with this token. BOS is not a word of the text."""
    structure, parameters = built(4, 5, True)
    run = jax.jit(lambda batch: structure.merge(parameters).log_likelihood(batch)[0]["log_likelihood"])
    text = np.random.default_rng(3).integers(4, V, (2, T + 1)).astype(np.int32)
    within = {"target": text[:, 1:], "target_before": text[:, 0]}
    np.testing.assert_allclose(run(within), run({"target": text})[:, 1:], atol=1e-6)
    first = {**within, "target_before": np.full(2, BOS, np.int32)}
    np.testing.assert_array_equal(run(first), run({"target": text[:, 1:]}))
    after_source = {"source": text[:, :1], "target": text[:, 2:], "target_before": text[:, 1]}
    np.testing.assert_allclose(run(after_source), run({"target": text})[:, 2:], atol=1e-6)


@pytest.mark.parametrize("kind", EVERY)
def test_gradients_are_those_of_pytorch(kind, ours, batch, torch):
    order, hidden, direct = KINDS[kind]
    parameters, _, gradients = ours(kind)
    leaf = {name: torch.tensor(np.asarray(x, np.float64), requires_grad=True) for name, x in parameters.items()}
    source = np.stack([[0] * int((row == 0).sum()) + row[row > 0].tolist() for row in batch["source"]])
    text = torch.tensor(np.concatenate([np.zeros((B, order - 1), int), source, batch["target"]], axis=1))
    windows = text.unfold(1, order, 1)[:, S:]  # the last word of a window is predicted
    x = torch.nn.functional.embedding(windows[..., :-1], leaf["table"]).flatten(-2)
    parts = [x] if direct else []
    if hidden:
        parts.append(torch.tanh(torch.nn.functional.linear(x, leaf["hidden_kernel"].T, leaf["hidden_bias"])))
    y = torch.nn.functional.linear(torch.cat(parts, -1), leaf["output_kernel"].T, leaf["output_bias"])
    target = windows[..., -1]
    torch.nn.functional.cross_entropy(y[target != 0], target[target != 0], reduction="sum").backward()
    assert set(gradients) == set(leaf)
    for name, one in leaf.items():
        np.testing.assert_allclose(gradients[name], one.grad.numpy(), atol=1e-4, rtol=1e-4, err_msg=name)
        assert np.any(np.asarray(gradients[name]))


@pytest.mark.parametrize("kind", ["mlp", "bottleneck"])
def test_steps_equal_the_full_forward(kind, ours, batch):
    structure, parameters = built(*KINDS[kind])
    model = structure.merge(parameters)

    @jax.jit
    def by_steps(source, target):
        cache, last, prices = model.start(B), jnp.full(B, BOS), []
        for words in (*source.T, *target.T):
            cache, log_p, _ = model.step(cache, last)
            last = words
            prices.append(jnp.take_along_axis(log_p, words[:, None], 1)[:, 0])
        return jnp.stack(prices[S:], 1)

    prices = by_steps(jnp.asarray(batch["source"]), jnp.asarray(batch["target"]))
    values = ours(kind)[1]
    whole = np.asarray(batch["source"]).all(axis=1)[:, None] & np.asarray(values["mask"])  # steps know no padding
    assert whole.sum() == 5
    np.testing.assert_allclose(np.asarray(prices)[whole], np.asarray(values["log_likelihood"])[whole], atol=1e-5)


def test_a_text_alone_begins_after_padding(batch, ours):
    structure, parameters = built(*KINDS["mlp"])
    alone = {"target": jnp.asarray(batch["target"])}
    values, empty = jax.jit(lambda alone: tuple(
        loss(structure, parameters, given)[1] for given in (alone, {"source": jnp.zeros((B, 0), jnp.int32), **alone})
    ))(alone)  # fmt: skip
    np.testing.assert_array_equal(values["log_likelihood"], empty["log_likelihood"])
    np.testing.assert_allclose(values["log_likelihood"][0], ours("mlp")[1]["log_likelihood"][0], atol=1e-5)


def test_only_the_words_of_the_window_count(batch):
    """Of n - 1 = 4 words. The word that is predicted changes its own likelihood only."""
    structure, parameters = built(*KINDS["mlp"])
    priced = jax.jit(
        lambda target: loss(structure, parameters, {"source": jnp.asarray(batch["source"]), "target": target})[1]
    )
    changed = batch["target"].copy()
    changed[1, 1] = (changed[1, 1] - 3) % (V - 4) + 4
    before, after = (
        np.asarray(priced(jnp.asarray(target))["smooth_log_likelihood"]) for target in (batch["target"], changed)
    )
    assert (before != after)[1].tolist() == [False, False, True, True, True, True, False]
    np.testing.assert_array_equal(before[[0, 2]], after[[0, 2]])


def test_mistakes_are_named(batch):
    structure, parameters = built(*KINDS["mlp"])
    tokens = jnp.asarray(batch["target"])
    with pytest.raises(ValueError, match="the words of one text would be read before another"):
        structure.merge(parameters).log_likelihood({"target": tokens, "target_segments": tokens})
    make = partial(FeedForwardLanguageModel, vocabulary_size=V, width=M, rngs=nnx.Rngs(0))
    with pytest.raises(ConfigError, match=r"^model.order: expected at least 2, .* got 1$"):
        make(order=1)
    with pytest.raises(ConfigError, match=r"^model.direct: without direct connections, expected a hidden_width above"):
        make(hidden_width=0, direct=False)
