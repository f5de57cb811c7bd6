"""Generated trees against a separate walk, and attention by distance against its equation in float64 NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.experiments.wang2019.agreement_trees import generate, is_noun, is_plural
from attention_research.experiments.wang2019.tree_positions import (
    POSITIONS,
    DistanceAttention,
    NumberTagger,
    by_distance,
    distances_of,
)
from attention_research.layers.structure import abstract, initializer

SIZES = {"width": 12, "num_heads": 2, "num_layers": 2, "max_distance": 3}


@pytest.fixture(scope="module")
def sentences():
    return generate(300, 19, seed=3)


def verbs(sentences):
    """(tokens, heads, position of the verb, its distance, plural, attracted) of every verb."""
    for tokens, heads, plural, distance, attracted in zip(*sentences, strict=True):
        for place in np.flatnonzero(plural >= 0):
            yield tokens.tolist(), heads.tolist(), int(place), int(distance[place]), plural[place], attracted[place]


def test_trees_have_one_root_and_no_crossing_branches(sentences):
    for tokens, heads in zip(sentences.tokens, sentences.heads, strict=True):
        length = int((tokens > 0).sum())
        assert (tokens[:length] > 0).all() and (heads[length:] == -1).all()
        assert list(heads[:length]).count(-1) == 1
        arcs = [sorted((word, int(head))) for word, head in enumerate(heads[:length]) if head >= 0]
        assert not any(a < c < b < d for a, b in arcs for c, d in arcs)
        for word in range(length):
            for _ in range(length):
                word = heads[word] if heads[word] >= 0 else word
            assert heads[word] == -1  # there are no cycles


def test_a_verb_agrees_with_the_noun_that_the_tree_makes_its_subject(sentences):
    """The noun on its left whose head is the verb, or else the noun that is the verb's head."""
    count = 0
    for tokens, heads, verb, distance, plural, attracted in verbs(sentences):
        below = [word for word in range(verb) if heads[word] == verb and is_noun(tokens[word])]
        assert len(below) <= 1
        subject = below[0] if below else heads[verb]
        nearest = [token for token in tokens[:verb] if is_noun(token)][-1]
        assert is_noun(tokens[subject]) and verb - subject == distance
        assert is_plural(tokens[subject]) == plural and (is_plural(nearest) != plural) == attracted
        count += 1
    assert count > 400


def test_lost_words_are_attached_to_the_main_verb(sentences):
    lost = generate(300, 19, seed=3, lost=0.25)
    np.testing.assert_array_equal(lost.tokens, sentences.tokens)
    moved = lost.heads != sentences.heads
    roots = np.argmax((sentences.heads < 0) & (sentences.tokens > 0), axis=1)
    assert (lost.heads == roots[:, None])[moved].all()
    hanging = (sentences.heads >= 0) & (sentences.heads != roots[:, None])
    assert abs(moved[hanging].mean() - 0.25) < 0.03 and not moved[~hanging].any()


def test_accuracy_is_reported_by_distance(sentences):
    right = sentences.plural
    assert by_distance(right, sentences)["accuracy"] == 1.0
    near = np.where(sentences.distance < 6, right, 1 - right)
    found = by_distance(near, sentences)
    assert (found["from_1"], found["from_3"], found["from_6"], found["from_10"]) == (1, 1, 0, 0)
    wrong = np.where(sentences.attracted, 1 - right, right)
    found = by_distance(wrong, sentences)
    assert found["attracted"] == 0.0 and found["accuracy"] == pytest.approx(found["neighbour"])


@pytest.mark.parametrize("kind", POSITIONS)
def test_attention_by_distance_is_shaws_equation_with_the_distances_of_each_head(kind, sentences):
    heads, tokens = jnp.asarray(sentences.heads[:3]), sentences.tokens[:3]
    distances = distances_of(kind, heads)
    layer = DistanceAttention(kinds=len(distances), max_distance=3, width=12, num_heads=2, rngs=nnx.Rngs(0))
    x = np.random.default_rng(0).standard_normal((3, 19, 12))
    real = (tokens > 0)[:, None, None]
    run = jax.jit(lambda x: layer(x, distances=distances, mask=jnp.asarray(real))[0])
    q, k, v = (
        (x @ np.asarray(p.kernel[...], np.float64) + np.asarray(p.bias[...])).reshape(3, 19, 2, 6)
        for p in (layer.query, layer.key, layer.value)
    )
    context = np.zeros((3, 19, 2, 6))
    for head in range(2):
        a_key, a_value = np.zeros((2, 3, 19, 19, 6))
        if len(distances):
            mine = head * len(distances) // 2
            row = np.clip(np.asarray(distances[mine]), -3, 3) + 3
            a_key, a_value = (np.asarray(t[...], np.float64)[mine][row] for t in (layer.key_table, layer.value_table))
        scores = (np.einsum("bth,bsh->bts", q[:, :, head], k[:, :, head])
                  + np.einsum("bth,btsh->bts", q[:, :, head], a_key)) / np.sqrt(6)  # fmt: skip
        scores = np.where(real[:, 0], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        context[:, :, head] = np.einsum("bts,bsh->bth", weights, v[:, :, head]) + np.einsum(
            "bts,btsh->bth", weights, a_value
        )
    want = context.reshape(3, 19, 12) @ np.asarray(layer.output.kernel[...]) + np.asarray(layer.output.bias[...])
    np.testing.assert_allclose(run(jnp.asarray(x, jnp.float32)), want, atol=2e-5)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("linear", "dependency"))) for kind in POSITIONS]
)
def test_models_depend_on_word_order_or_the_tree_by_kind(kind, sentences):
    """Models that know the tree depend on the heads.

    All models except "none" depend on the order of words (moved with their heads), since distances in the tree have the
    sign of the order.
    """
    structure, *_ = abstract(lambda rngs: NumberTagger(kind, rngs=rngs, **SIZES))
    parameters, _ = jax.jit(initializer(lambda rngs: NumberTagger(kind, rngs=rngs, **SIZES)))(jax.random.key(0))
    run = jax.jit(lambda tokens, heads: structure.merge(parameters)(tokens, heads))
    tokens, heads = jnp.asarray(sentences.tokens[:5]), jnp.asarray(sentences.heads[:5])
    plain, chained = run(tokens, heads), run(tokens, jnp.where(tokens > 0, jnp.arange(-1, 18), -1))
    differs = float(jnp.abs(plain - chained).max()) > 1e-3
    assert differs == ("dependency" in POSITIONS[kind]) and plain.shape == (5, 19, 2)
    order = np.random.default_rng(1).permutation(19)
    moved = jnp.where(heads >= 0, jnp.argsort(order)[heads], -1)[:, order]
    again = run(tokens[:, order], moved)
    same = float(jnp.abs(again - plain[:, order]).max()) < 1e-4
    assert same == (kind == "none")
