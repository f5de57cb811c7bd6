"""Rationales: the cell against its equations, independence of words left out, probabilities of samples."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import build_model
from attention_research.layers.recurrent.rcnn import RCNNCell
from attention_research.layers.structure import abstract
from attention_research.registry import FAMILIES

GENERATORS = tuple(FAMILIES["rationale_generator"])
LEARNED = ("independent", "sequential")
NAMED = lambda kind: kind or "soft_attention"
slow = lambda *kinds: [pytest.param(kind, marks=pytest.mark.slow) for kind in kinds]
#: Three reviews of 7, 4 and 0 words.
SOURCE = np.array([[5, 9, 4, 11, 6, 8, 7], [6, 4, 10, 5, 0, 0, 0], [0] * 7], np.int32)


def constructor(generator="independent", **model):
    """The constructor of a small rater."""
    kind = {"kind": "rationale", "generator": generator} if generator else {"kind": "soft_attention_ratings"}
    section = {**kind, "width": 5, "embedding_width": 3, "num_ratings": 2, **model}
    return build_model(section, max_length=7, vocabulary_size=13)


def built(generator="independent", **model):
    """(merge, parameters). The parameters have scale 1, so that probabilities are far from a half."""
    make = constructor(generator, **model)
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
    rng = np.random.default_rng(2)
    parameters = {name: jnp.asarray(rng.standard_normal(x.shape), x.dtype) for name, x in sorted(shapes.items())}
    parameters |= {name: jnp.full_like(x, 1.5) for name, x in parameters.items() if name == "generator.score.bias"}
    return structure.merge, parameters


@pytest.fixture(scope="module")
def models():
    """kind of generator ("" is soft attention) -> (merge, parameters)."""
    soft = {"attention_width": 11}
    return {kind: built(kind) for kind in GENERATORS} | {"": built("", **soft)}


@pytest.fixture(scope="module")
def read(models):
    """read(kind, source, key, selected), compiled once for each kind."""
    merged = {
        kind: (lambda p, s, k, z, merge=merge: merge(p).read(s, key=k, selected=z))
        for kind, (merge, _) in models.items()
    }
    merged[""] = lambda p, s, k, z: models[""][0](p).read(s, key=k)
    compiled = {kind: jax.jit(function) for kind, function in merged.items()}
    return lambda kind, source, key=None, selected=None: compiled[kind](models[kind][1], source, key, selected)


def test_the_cell_follows_its_equations():
    """In float64 NumPy, three steps."""
    cell, rng = RCNNCell(width=5, input_width=3, rngs=nnx.Rngs(0)), np.random.default_rng(1)
    kernel, recurrent = (np.asarray(x[...], np.float64) for x in (cell.input_kernel, cell.state_kernel))
    gate_bias, bias = rng.standard_normal((2, 5))
    cell.gate_bias = nnx.Param(jnp.asarray(gate_bias, jnp.float32))
    cell.bias = nnx.Param(jnp.asarray(bias, jnp.float32))
    state, h, c1, c2 = cell.initial(2, jnp.float32), *np.zeros((3, 2, 5))
    for x in rng.standard_normal((3, 2, 3)):
        state = cell(jnp.asarray(x, jnp.float32), state)
        gate = 1 / (1 + np.exp(-(x @ kernel[:, :5] + h @ recurrent + gate_bias)))
        c1, c2 = gate * c1 + (1 - gate) * (x @ kernel[:, 5:10]), gate * c2 + (1 - gate) * (c1 + x @ kernel[:, 10:])
        h = np.tanh(c2 + bias)
        for name, wanted in (("hidden", h), ("first", c1), ("second", c2)):
            np.testing.assert_allclose(state[name], wanted, atol=1e-6)


@pytest.mark.parametrize("kind", ["independent", "random_words"])
def test_unselected_words_are_not_read(read, kind):
    """Replacing words that are left out does not change a bit of the ratings. Replacing a selected word does."""
    selected = np.array([[0, 1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0, 0], [0] * 7], bool)
    other = np.where(selected | (SOURCE == 0), SOURCE, (SOURCE + 3) % 13 + (SOURCE == 10))
    assert (other != SOURCE).sum() == 7
    first, second = (read(kind, source, None, selected)["ratings"] for source in (SOURCE, other))
    assert (np.asarray(first) == np.asarray(second)).all()
    changed = SOURCE.copy()
    changed[0, 5] = 12
    assert (read(kind, changed, None, selected)["ratings"][0] != first[0]).all()


def test_a_review_is_rated_as_its_selected_words_alone(read):
    """Skipping words equals cutting them out. A review without selected words is rated like an empty one."""
    selected = np.array([[0, 1, 1, 0, 0, 1, 0], [0] * 7, [0] * 7], bool)
    alone = np.array([[9, 4, 8, 0, 0, 0, 0], [0] * 7, [0] * 7], np.int32)
    skipped = read("independent", SOURCE, None, selected)["ratings"]
    np.testing.assert_allclose(skipped, read("independent", alone, None, alone != 0)["ratings"], atol=1e-6)
    assert (skipped[1] == skipped[2]).all() and (skipped[0] != skipped[1]).all()


@pytest.mark.parametrize("kind", [*LEARNED, "", *slow("random_words", "every_word")], ids=NAMED)
def test_padding_is_never_selected_or_counted(read, kind):
    for key in (None, jax.random.key(3)):
        found = read(kind, SOURCE, key)
        for name in ("selected", "log_probability", "weights"):
            assert not np.asarray(found[name])[SOURCE == 0].any()
    if kind != "random_words":  # its draws depend on the number of words
        long, short = read(kind, np.pad(SOURCE, ((0, 0), (0, 4)))), read(kind, SOURCE)
        np.testing.assert_allclose(long["ratings"], short["ratings"], atol=1e-6)
        assert (long["selected"][:, :7] == short["selected"]).all()


@pytest.mark.parametrize("kind", ["independent", *slow("sequential")])
def test_samples_have_the_reported_probability(models, kind):
    """The probabilities of all 16 choices for a review of four words sum to one and match the sampling frequencies."""
    merge, parameters = models[kind]
    source = jnp.asarray(SOURCE[1:2, :4])
    choices = np.array(list(product((False, True), repeat=4)))
    given = jax.jit(lambda z: merge(parameters).read(jnp.repeat(source, 16, axis=0), selected=z))(choices)
    probability = np.exp(np.sum(np.asarray(given["log_probability"], np.float64), axis=1))
    np.testing.assert_allclose(probability.sum(), 1, atol=1e-5)

    model = lambda key: merge(parameters).generator(x, source != 0, key=key)[1][0]
    x = parameters["embedding"][source]
    drawn = np.asarray(jax.jit(jax.vmap(model))(jax.random.split(jax.random.key(1), 20_000)))
    found = np.bincount(drawn @ (8, 4, 2, 1), minlength=16) / len(drawn)
    assert probability.max() < 0.9  # otherwise the test would have little power
    bound = 4.5 * np.sqrt(probability * (1 - probability) / len(drawn)) + 1e-4
    assert (np.abs(found - probability) < bound).all()


def test_a_sequential_choice_sees_the_earlier_ones_and_no_later_ones(models):
    merge, parameters = models["sequential"]
    scores = jax.jit(
        lambda z: merge(parameters).generator(parameters["embedding"][SOURCE], jnp.asarray(SOURCE != 0), selected=z)[0]
    )
    none = jnp.zeros((3, 7), bool)
    third = none.at[:, 2].set(True)
    differ = np.asarray(scores(none) != scores(third))
    assert not differ[:, :3].any() and differ[0, 3:].all() and differ[1, 3]


@pytest.mark.parametrize("kind", LEARNED)
def test_without_a_key_the_likelier_choice_is_taken(read, kind):
    found = read(kind, SOURCE)
    assert (np.asarray(found["selected"]) == (np.asarray(found["weights"]) > 0.5)).all()
    assert 0 < found["selected"].sum() < 11


def test_random_words_are_as_many_as_asked(models):
    merge, parameters = models["random_words"]
    real = jnp.ones((100, 101), bool)
    for key in (None, jax.random.key(5)):
        share = merge(parameters).generator(jnp.zeros((100, 101, 3)), real, key=key)[1].mean()
        assert abs(float(share) - 0.15) < 0.015


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_generator_is_a_plain_pytree(kind):
    """No function or array is a static attribute: two instances, and one under vmap, have the same structure."""
    make = lambda key: constructor(kind)(rngs=nnx.Rngs(key))
    first, second = (jax.eval_shape(make, jax.random.key(seed)) for seed in range(2))
    stacked = jax.eval_shape(jax.vmap(make), jax.random.split(jax.random.key(0), 2))
    assert jax.tree.structure(first) == jax.tree.structure(second) == jax.tree.structure(stacked)


def test_every_word_selects_all_words(read):
    assert (np.asarray(read("every_word", SOURCE)["selected"]) == (SOURCE != 0)).all()


def test_soft_attention_is_a_weighted_mean_of_all_states(models, read):
    """The same encoder's states, weights and output in float64 NumPy."""
    merge, parameters = models[""]
    found, model = read("", SOURCE), merge(parameters)
    weights = np.asarray(found["weights"], np.float64)
    np.testing.assert_allclose(weights.sum(axis=1), [1, 1, 0], atol=1e-6)
    states = np.asarray(model.encoder(parameters["embedding"][SOURCE], jnp.asarray(SOURCE != 0))[0], np.float64)
    p = {name: np.asarray(x, np.float64) for name, x in parameters.items()}
    scores = np.tanh(states @ p["hidden.kernel"] + p["hidden.bias"]) @ p["score.kernel"]
    wanted = np.where(SOURCE != 0, np.exp(scores[..., 0]), 0)
    np.testing.assert_allclose(weights[:2], (wanted / wanted.sum(axis=1, keepdims=True).clip(1e-9))[:2], atol=1e-6)
    context = np.einsum("bs,bsd->bd", weights, states)
    ratings = 1 / (1 + np.exp(-(context @ p["output.kernel"] + p["output.bias"])))
    np.testing.assert_allclose(found["ratings"], ratings, atol=1e-6)


def test_soft_attention_reads_cells_of_another_width():
    structure, parameters, _ = abstract(
        lambda rngs: constructor(None, cell={"kind": "rcnn", "width": 7}, attention_width=4)(rngs=rngs)
    )
    assert structure is not None and parameters["hidden.kernel"].shape[0] == parameters["output.kernel"].shape[0] == 7
