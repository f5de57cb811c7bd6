"""Words in context: cosines by hand, sentences that contain their word once, and frozen vectors by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.lectures.embeddings.choices import fitted, measure_choice
from attention_research.experiments.lectures.embeddings.senses import SENTENCES, plane, similarities


def test_sentences_are_unique_and_contain_their_word_once():
    every = [sentence for sides in SENTENCES.values() for side in sides for sentence in side]
    assert len(set(every)) == len(every) == 64
    for word, sides in SENTENCES.items():
        assert all(sentence.split().count(word) == 1 for side in sides for sentence in side), word


def test_similarities_are_means_of_cosines():
    states = np.array([[[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]]])
    found = list(similarities(states, [0, 0, 1]))
    np.testing.assert_allclose(found, [(1.0, 0.0), (2**-0.5, (-1 - 2**-0.5) / 2)], atol=1e-12)


def test_the_plane_keeps_the_largest_differences():
    random = np.random.default_rng(0)
    states = random.standard_normal((8, 2)) @ random.standard_normal((2, 5)) + 3.0
    found = plane(states)
    distances = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)
    np.testing.assert_allclose(distances(found), distances(states), atol=1e-10)  # the states lie in a plane


def test_a_regression_separates_what_a_line_separates_and_learns_a_table():
    features = jnp.asarray([[1.0, 0.0], [2.0, 0.5], [0.0, 1.0], [0.5, 2.0]])
    labels = jnp.asarray([0, 0, 1, 1])
    for table in (None, 0.1 * jnp.asarray(np.random.default_rng(0).standard_normal((2, 3)), jnp.float32)):
        scores = np.asarray(fitted(features, labels, 2, table)(features))
        np.testing.assert_array_equal(scores.argmax(axis=1), labels)


def test_an_unknown_choice_is_named():
    with pytest.raises(ValueError, match="'glove': expected one of random, tf_idf, pretrained, learned"):
        measure_choice(choice="glove", checkpoint="", labels=(1,), width=1, learned_width=1, news="", seed=0)
