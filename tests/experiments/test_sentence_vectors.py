"""PCA and silhouettes against scikit-learn; the effect of word order on a vector and on a bag of words."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score

from attention_research.analysis import picture_file
from attention_research.experiments.sutskever2014 import sentence_vectors
from attention_research.experiments.sutskever2014.sentence_vectors import (
    bags,
    order_distance,
    pca,
    reordered,
    roles,
    silhouette,
    voices,
)
from attention_research.tokens import EOS

POINTS = np.random.default_rng(3).normal(size=(17, 5)) * np.array([5.0, 3.0, 1.0, 0.5, 0.1]) + 7.0


def test_components_equal_scikit_learn_up_to_sign():
    theirs = PCA(3).fit(POINTS)
    coordinates, shares, components = pca(POINTS, 3)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, rtol=1e-10)
    np.testing.assert_allclose(np.abs(components), np.abs(theirs.components_), atol=1e-10)
    np.testing.assert_allclose(np.abs(coordinates), np.abs(theirs.transform(POINTS)), atol=1e-9)
    assert all(row[np.abs(row).argmax()] > 0 for row in components)


def test_equal_vectors_have_no_spread_and_no_nan():
    coordinates, shares, _ = pca(np.ones((4, 3)))
    assert not coordinates.any() and not shares.any()


@pytest.mark.parametrize("groups", [[0] * 8 + [1] * 9, [0, 1, 2] * 5 + [0, 3]], ids=["two", "one alone"])
def test_the_silhouette_is_scikit_learns(groups):
    assert silhouette(POINTS, np.asarray(groups)) == pytest.approx(silhouette_score(POINTS, groups), abs=1e-12)


def test_the_same_words_in_another_order_are_the_same_bag():
    ids = {word: number for number, word in enumerate(sorted({w for s in roles()[0] for w in s.split()}), start=4)}
    tokenizer = SimpleNamespace(size=31, encode=lambda texts: [[*(ids[w] for w in t.split()), EOS] for t in texts])
    trained = SimpleNamespace(data=SimpleNamespace(tokenizer=tokenizer))
    sentences = roles()[0]
    assert order_distance(lambda texts: bags(trained, texts), sentences) == 0.0
    counted = bags(trained, sentences[:1])
    assert counted.sum() == 5 and counted[0, EOS] == 0

    def second_word(texts):
        return np.asarray([[float(ids[text.split()[1]])] for text in texts])

    assert order_distance(second_word, sentences) > 0


def test_reordering_keeps_the_words_and_the_end():
    text = "in the beginning was the word."
    other = reordered(text, np.random.default_rng(0))
    assert sorted(other.split()) == sorted(text.split()) and other != text and other.endswith(" word.")


def test_roles_and_voices_have_both_names_in_both_places():
    texts, actors, verbs = roles()
    assert len(set(texts)) == 10
    assert texts[0] == "the king follows the queen" and texts[5] == "the queen follows the king"
    assert actors.tolist() == [0] * 5 + [1] * 5 and verbs.tolist() == [0, 1, 2, 3, 4] * 2
    told, givers = voices()
    assert len(set(told)) == 6 and told[1] == "the king often follows the queen in the city"
    assert told[3].startswith("the queen follows the king in")
    assert givers.tolist() == [0, 0, 0, 1, 1, 1]


def test_the_picture_has_a_panel_for_each_plane(tmp_path):
    texts, actors, _ = roles()
    plane = sentence_vectors._plane(texts, actors, POINTS[:10, :2], np.array([0.6, 0.3]))
    figure = sentence_vectors.figure_of([("one", plane), ("two", plane)])
    assert [len(axis.texts) for axis in figure.axes] == [10, 10]
    picture_file.save(figure, tmp_path / "planes.png")
    assert (tmp_path / "planes.png").stat().st_size > 20_000
