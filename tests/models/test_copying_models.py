"""Models that name and copy against the papers' equations in float64 NumPy loops, one snippet and step at a time."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.decoding import BeamSearch, Greedy
from attention_research.layers.recurrent.gru import GRUCell
from attention_research.layers.recurrent.lstm import LSTMCell
from attention_research.layers.structure import abstract
from attention_research.models.copying.conv_attention import ConvAttention
from attention_research.models.copying.copy_attention import CopyAttention
from attention_research.models.copying.extended import extended_ids
from attention_research.models.copying.pointer_generator import PointerGenerator
from attention_research.tasks.coverage import Coverage
from attention_research.tasks.translation import Translation

V, D, H, K, K1, S, T = 23, 5, 3, 7, 11, 13, 4
WINDOWS = (4, 3, 2)
PAD, BOS, EOS, UNKNOWN = 0, 1, 2, 3
#: Ids from 23 on are words that the vocabulary lacks. 31 occurs in the first body, 40 in the second, 29 in none.
SOURCE = np.zeros((2, S), np.int32)
SOURCE[0] = [5, 31, 7, 5, 33, 31, 9, 11, 8, 6, 31, 22, EOS]
SOURCE[1, :6] = [40, 12, 12, 17, 40, EOS]
TARGET = np.array([[31, 5, 29, EOS], [12, 40, EOS, PAD]], np.int32)
BATCH = {"source": jnp.asarray(SOURCE), "target": jnp.asarray(TARGET)}

CONVOLUTIONAL = {"first_maps": K1, "windows": WINDOWS, "dropout_rate": 0.4, "cell": partial(GRUCell, width=K)}
MAKERS = {
    "conv_attention": partial(ConvAttention, **CONVOLUTIONAL),
    "copy_attention": partial(CopyAttention, **CONVOLUTIONAL),
    "attention": partial(PointerGenerator, copies=False, dropout_rate=0.3, cell=partial(LSTMCell, width=H)),
    "pointer_generator": partial(PointerGenerator, cell=partial(LSTMCell, width=H)),
    "pointer_generator_gru": partial(PointerGenerator, cell=partial(GRUCell, width=H)),
    "pointer_generator_coverage": partial(PointerGenerator, coverage=True, cell=partial(LSTMCell, width=H)),
}
COPYING = [kind for kind in MAKERS if kind not in ("conv_attention", "attention")]
#: Without coverage the pointer-generator has one term less, and another cell has another state. These are slow tests.
POINTERS = ("pointer_generator", "pointer_generator_coverage")
SLOW = ("pointer_generator", "pointer_generator_gru")


def with_slow(*slow, only=tuple(MAKERS)):
    """The kinds as parameters, with some marked slow."""
    return [pytest.param(kind, marks=[pytest.mark.slow] * (kind in slow), id=kind) for kind in only]


def maker(kind):
    return lambda rngs: MAKERS[kind](vocabulary_size=V, max_length=T, width=D, rngs=rngs)


@pytest.fixture(scope="module")
def built():
    """kind -> (structure, parameters, {"values", "aux", "steps", "collected"} of BATCH), compiled once per kind."""
    made = {}

    def build(kind):
        if kind not in made:
            structure, shapes, _ = abstract(maker(kind))
            rng = np.random.default_rng(len(kind))
            parameters = {name: jnp.asarray(rng.standard_normal(x.shape), x.dtype) for name, x in shapes.items()}

            @jax.jit
            def run(parameters, batch):
                model = structure.merge(parameters)
                values, aux = model.log_likelihood(batch)
                cache = model.start(model.encode({"tokens": batch["source"]}))

                def step(carry, target):
                    cache, log_probabilities, collected = model.step(*carry)
                    return (cache, target), (log_probabilities, collected["decoder"])

                first = jnp.full(batch["target"].shape[0], BOS, jnp.int32)
                _, steps = jax.lax.scan(step, (cache, first), batch["target"].T)
                steps, collected = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), steps)
                return {"values": values, "aux": aux["decoder"], "steps": steps, "collected": collected}

            made[kind] = structure, parameters, run, jax.device_get(run(parameters, BATCH))
        return made[kind]

    return build


def softmax(x):
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def known(token):
    return token if token < V else UNKNOWN


def both_ways(vocabulary, weight, weights, body, target, mu):
    """log p(target) by two sums: over the positions that hold it, and the vocabulary's entry."""
    copied = sum(a for a, word in zip(weights, body, strict=True) if word == target)
    if target < V:
        return np.log(weight * copied + (1 - weight) * vocabulary[target])
    return np.log(weight * copied + (1 - weight) * vocabulary[UNKNOWN] * (mu if target in body else 1.0))


def convolve(x, kernel):
    """Valid convolution [P D] * [W D K], without flipping the kernel."""
    rows = range(len(x) - len(kernel) + 1)
    return np.stack([sum(x[p + w] @ kernel[w] for w in range(len(kernel))) for p in rows])


def allamanis64(p, body, target, copies):
    """[T] log p, alpha, kappa, lambda of one snippet. `body` holds its words without padding and end."""
    table, around = p["vocabulary.table"], sum(WINDOWS) - 3
    words = [table[known(word)] for word in body]
    padded = np.stack([table[PAD]] * ((around + 1) // 2) + words + [table[PAD]] * (around // 2))
    first = convolve(padded, p["first_kernel"]) + p["first_bias"]
    features = convolve(np.where(first > 0, first, 0.1 * first), p["second_kernel"]) + p["second_bias"]
    h, fed, found = p["first_state"], BOS, []
    for token in target:
        x = table[known(fed)] @ p["cell.input_kernel"] + p["cell.input_bias"]
        u = h @ p["cell.state_kernel"]
        r, z = sigmoid(x[:K] + u[:K]), sigmoid(x[K : 2 * K] + u[K : 2 * K])
        h = (1 - z) * np.tanh(x[2 * K :] + r * (u[2 * K :] + p["cell.state_bias"])) + z * h
        gated = features * np.where(h > 0, h, 0.01 * h)
        gated /= np.sqrt((gated**2).sum())
        scores = [convolve(gated, kernel[..., None])[:, 0] for kernel in p["head_kernels"]]
        alpha = softmax(scores[0])
        context = sum(a * word for a, word in zip(alpha, words, strict=True))
        vocabulary = softmax(table @ context + p["vocabulary.bias"])
        if copies:
            kappa, weight = softmax(scores[1]), sigmoid(scores[2].max() + p["meta_bias"])
            found.append((both_ways(vocabulary, weight, kappa, body, token, np.exp(-10)), alpha, kappa, weight))
        else:
            found.append((np.log(vocabulary[known(token)]), alpha))
        fed = token
    return found


@pytest.mark.parametrize("kind", with_slow("conv_attention", only=("conv_attention", "copy_attention")))
def test_convolutional_attention_is_the_papers(kind, built):
    _, parameters, _, got = built(kind)
    p = {name: np.asarray(x, np.float64) for name, x in parameters.items()}
    for b, (body, length) in enumerate((([*SOURCE[0, :12]], 4), ([*SOURCE[1, :5]], 3))):
        found = allamanis64(p, body, TARGET[b, :length], kind == "copy_attention")
        for t, (expected, alpha, *copy) in enumerate(found):
            np.testing.assert_allclose(got["values"]["log_likelihood"][b, t], expected, rtol=2e-5)
            np.testing.assert_allclose(got["aux"]["alignment"][b, t, : len(body)], alpha, atol=2e-6)
            if copy:
                np.testing.assert_allclose(got["aux"]["copy"][b, t, : len(body)], copy[0], atol=2e-6)
                np.testing.assert_allclose(got["aux"]["copy_probability"][b, t], copy[1], atol=2e-6)


def lstm64(p, name, x, h, c):
    i, f, g, o = np.split(x @ p[f"{name}.input_kernel"] + h @ p[f"{name}.state_kernel"] + p[f"{name}.bias"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def linear64(p, name, x):
    return x @ p[f"{name}.kernel"] + p.get(f"{name}.bias", 0.0)


def see64(p, source, target, copies, coverage):
    """[T] (log p, a, 1 - p_gen, coverage loss) of one snippet. `source` has its end but no padding."""
    table = p["vocabulary.table"]
    x = [table[known(word)] for word in source]
    outputs, lasts = [], []
    for name, order in (("forward_cell", range(len(x))), ("backward_cell", reversed(range(len(x))))):
        h, c, at = np.zeros(H), np.zeros(H), {}
        for position in order:
            h, c = lstm64(p, name, x[position], h, c)
            at[position] = h
        outputs.append(np.stack([at[position] for position in range(len(x))]))
        lasts.append({"cell": c, "hidden": h})
    states = np.concatenate(outputs, axis=1)
    reduced = [
        np.maximum(linear64(p, f"reduce.{n}", np.concatenate([last[part] for last in lasts])), 0)
        for n, part in enumerate(("cell", "hidden"))
    ]
    (c, h), body = reduced, [word for word in source if word != EOS]
    context, covered, fed, found = np.zeros(2 * H), np.zeros(len(body)), BOS, []
    for token in target:
        merged = linear64(p, "merge", np.concatenate([table[known(fed)], context]))
        h, c = lstm64(p, "cell", merged, h, c)
        query = linear64(p, "query", np.concatenate([c, h]))
        inner = np.stack([linear64(p, "keys", states[i]) + query for i in range(len(body))])
        if coverage:
            inner = inner + covered[:, None] * p["coverage_weight"]
        weights = softmax(np.tanh(inner) @ p["score"])
        context = weights @ states[: len(body)]
        loss, covered = np.minimum(weights, covered).sum(), covered + weights
        hidden = linear64(p, "output", np.concatenate([h, context]))
        vocabulary = softmax(hidden @ p["vocabulary.output_kernel"] + p["vocabulary.output_bias"])
        if copies:
            logit = p["generate_context"] @ context + p["generate_state"] @ np.concatenate([c, h])
            generate = sigmoid(logit + p["generate_input"] @ merged + p["generate_bias"])
            found.append((both_ways(vocabulary, 1 - generate, weights, body, token, 0.0), weights, loss, 1 - generate))
        else:
            found.append((np.log(vocabulary[known(token)]), weights, loss))
        fed = token
    return found


@pytest.mark.parametrize("kind", with_slow(*SLOW, only=("attention", *POINTERS)))
def test_the_pointer_generator_is_the_papers(kind, built):
    _, parameters, _, got = built(kind)
    p = {name: np.asarray(x, np.float64) for name, x in parameters.items()}
    for b, (width, length) in enumerate(((13, 4), (6, 3))):
        expected = see64(p, [*SOURCE[b, :width]], TARGET[b, :length], kind != "attention", kind.endswith("coverage"))
        for t, (value, weights, loss, *copy) in enumerate(expected):
            np.testing.assert_allclose(got["values"]["log_likelihood"][b, t], value, rtol=2e-5)
            np.testing.assert_allclose(got["aux"]["alignment"][b, t, : width - 1], weights, atol=5e-6)
            np.testing.assert_allclose(got["aux"]["coverage_loss"][b, t], loss, atol=5e-6)
            if copy:
                np.testing.assert_allclose(got["aux"]["copy_probability"][b, t], copy[0], atol=5e-6)


@pytest.mark.parametrize("kind", with_slow(*SLOW))
def test_steps_are_distributions_and_give_the_likelihood(kind, built):
    """Over V + S entries. A word at several positions counts at its first, and the end and padding have none."""
    *_, got = built(kind)
    steps, copies = got["steps"], kind in COPYING
    assert steps.shape == (2, T, V + S if copies else V)
    np.testing.assert_allclose(np.exp(steps).sum(-1), 1, atol=1e-5)
    for name, value in got["collected"].items():
        np.testing.assert_allclose(value[0], got["aux"][name][0], atol=1e-5)
    if copies:
        assert (np.exp(steps[0, :, V:]) > 0).nonzero()[1].tolist() == [1, 4] * T
        assert (np.exp(steps[1, :, V:]) > 0).nonzero()[1].tolist() == [0] * T
    entries = {31: V + 1, 40: V + 0}
    for b, t in np.ndindex(2, T):
        target = int(TARGET[b, t])
        if target in (PAD, 29) or (target >= V and not copies):
            continue
        # In training, a word of the body only may also be generated as the unknown word, at exp(-10).
        tolerance = 1e-3 if kind == "copy_attention" and target >= V else 2e-5
        entry = entries.get(target, target)
        np.testing.assert_allclose(got["values"]["log_likelihood"][b, t], steps[b, t, entry], atol=tolerance, rtol=2e-5)


def test_the_first_place_of_a_word_is_its_entry():
    ids = np.asarray(extended_ids(jnp.asarray(SOURCE), V))
    assert ids[0].tolist() == [5, V + 1, 7, 5, V + 4, V + 1, 9, 11, 8, 6, V + 1, 22, EOS]
    assert ids[1, :6].tolist() == [V, 12, 12, 17, V, EOS]


@pytest.mark.parametrize("kind", ["copy_attention", "pointer_generator_coverage"])
def test_padding_and_the_names_of_unknown_words_change_nothing(kind, built):
    """One snippet in a wider batch, and with other ids for the words that the vocabulary lacks."""
    _, parameters, run, got = built(kind)
    other = {"source": np.zeros((2, S), np.int32), "target": TARGET}
    other["source"][0, :6], other["source"][1, :6] = SOURCE[1, :6], [77, 12, 12, 17, 77, EOS]
    other["target"] = np.array([TARGET[1], [12, 77, EOS, PAD]], np.int32)
    again = jax.device_get(run(parameters, {name: jnp.asarray(x) for name, x in other.items()}))
    likelihood = lambda found: found["values"]["log_likelihood"][:, :3]
    for row in range(2):
        np.testing.assert_array_equal(likelihood(again)[row], likelihood(got)[1])
        np.testing.assert_array_equal(again["steps"][row], got["steps"][1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", with_slow(*SLOW, "conv_attention", "attention", "copy_attention"))
def test_every_parameter_has_a_gradient(kind, built):
    structure, parameters, *_ = built(kind)
    task = Coverage() if kind.endswith("coverage") else Translation(label_smoothing=0.0)
    loss = lambda p, key: task.loss(structure.merge(p), BATCH, key)[0]
    gradients = jax.device_get(jax.jit(jax.grad(loss))(parameters, jax.random.key(1)))
    assert {name for name, x in gradients.items() if not np.isfinite(x).all() or not x.any()} == set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", with_slow(*POINTERS, only=("copy_attention", *POINTERS)))
def test_beam_scores_equal_the_likelihood(kind, built):
    """Names from the body are scored as its ids, again without stepping. A beam of size one is greedy."""
    structure, parameters, *_ = built(kind)
    source = {"tokens": BATCH["source"]}

    @jax.jit
    def search(parameters):
        model = structure.merge(parameters)
        beam = BeamSearch(beam_size=3, alpha=0.0, extra_length=T, exact="all")(model, source, max_length=T)
        one = BeamSearch(beam_size=1, alpha=0.0, extra_length=T)(model, source, max_length=T)
        copied = jnp.clip(beam.tokens - V, 0, S - 1)
        words = jnp.take_along_axis(jnp.broadcast_to(BATCH["source"][:, None], (2, 3, S)), copied, axis=2)
        targets = jnp.where(beam.tokens >= V, words, beam.tokens).reshape(6, T)
        values, _ = model.log_likelihood({"source": jnp.repeat(BATCH["source"], 3, 0), "target": targets})
        prices = jnp.sum(values["log_likelihood"], axis=1, where=values["mask"])
        return beam, one, Greedy(extra_length=T)(model, source, max_length=T), prices.reshape(2, 3)

    beam, one, greedy, prices = jax.device_get(search(parameters))
    assert beam.lengths.min() > 0 and (beam.tokens >= V).any()
    np.testing.assert_allclose(beam.log_probabilities, prices, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(one.tokens, greedy.tokens)


@pytest.mark.parametrize("kind", with_slow(*SLOW, "attention"))
def test_bfloat16_keeps_its_states_and_gives_float32(kind):
    """Traced only: a scan refuses a carry that changes its dtype."""
    make = partial(MAKERS[kind], vocabulary_size=V, max_length=T, width=D, dtype="bfloat16")
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))

    def run(parameters):
        model = structure.merge(parameters)
        values, _ = model.log_likelihood(BATCH, key=jax.random.key(0))
        cache = model.start(model.encode({"tokens": BATCH["source"]}))
        after, log_probabilities, _ = model.step(cache, BATCH["target"][:, 0])
        return values["log_likelihood"], log_probabilities, cache, after

    likelihood, log_probabilities, cache, after = jax.eval_shape(run, shapes)
    assert likelihood.dtype == log_probabilities.dtype == jnp.float32
    assert jax.tree.map(lambda x: (x.shape, x.dtype), cache) == jax.tree.map(lambda x: (x.shape, x.dtype), after)
    assert {x.dtype for x in jax.tree.leaves(cache)} >= {jnp.dtype(jnp.bfloat16)}


@pytest.mark.slow
def test_dropout_feeds_the_context_to_some_snippets(built):
    """With a rate near 1 the target reaches a later likelihood only through the context that is fed."""
    structure, parameters, *_ = built("copy_attention")

    def last(table_scale, key, rate):
        model = structure.merge(parameters)
        model.dropout_rate = rate
        target = BATCH["target"].at[:, 0].set(jnp.where(table_scale > 0, 9, 10))
        return model.log_likelihood({**BATCH, "target": target}, key=key)[0]["log_likelihood"][:, 1]

    call = jax.jit(last, static_argnums=2)
    key = jax.random.key(0)
    fed_contexts = [call(jnp.float32(sign), key, 0.9999) for sign in (1, -1)]
    fed_targets = [call(jnp.float32(sign), key, 0.0) for sign in (1, -1)]
    np.testing.assert_array_equal(*fed_contexts)
    assert not np.allclose(*fed_targets)
