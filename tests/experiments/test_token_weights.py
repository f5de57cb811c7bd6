"""TF-IDF, logistic regression and rank correlation against scikit-learn and SciPy; embeddings against dense algebra."""

import jax
import numpy as np
import pytest
import scipy.stats
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import mutual_info_score

from attention_research.experiments.lectures.static_attention import embeddings, token_weights

V, C = 23, 3


@pytest.fixture(scope="module")
def texts():
    """67 texts of 2 to 11 tokens. Token 5 is in all, token 6 in none. The label depends on tokens 7 to 9."""
    rng = np.random.default_rng(9)
    label = rng.integers(0, C, 67)
    made = [
        np.concatenate([[5, 7 + c if rng.random() < 0.7 else 7], rng.integers(10, V, rng.integers(0, 10))])
        for c in label
    ]
    return made, label


def dense(terms, weights):
    matrix = np.zeros((len(terms), V))
    np.add.at(matrix, (np.arange(len(terms))[:, None], terms), weights)
    return matrix


def test_tf_idf_equals_scikit_learn_minus_the_count(texts):
    """TfidfTransformer(norm=None, smooth_idf=False) multiplies the count by log(N / df) + 1, ours by log(N / df)."""
    made, _ = texts
    counts = np.stack([np.bincount(ids, minlength=V) for ids in made])
    frequency = token_weights.document_frequency(made, V)
    idf = token_weights.inverse_document_frequency(frequency, len(made))
    ours = dense(*token_weights.tf_idf(made, idf))
    held = frequency > 0  # scikit-learn's unsmoothed IDF divides by zero for a term of no text
    theirs = TfidfTransformer(norm=None, smooth_idf=False).fit_transform(counts[:, held]).toarray()
    assert np.allclose(ours[:, held] + counts[:, held], theirs, atol=1e-12)
    assert frequency[5] == len(made) and idf[5] == 0 and frequency[6] == 0
    smooth = TfidfTransformer().fit_transform(counts).toarray()
    assert np.abs(token_weights.unit_length(ours) - smooth).max() > 0.1  # its default is a different formula


@pytest.mark.slow
def test_logistic_regression_is_scikit_learns(texts):
    made, label = texts
    idf = token_weights.inverse_document_frequency(token_weights.document_frequency(made, V), len(made))
    terms, weights = token_weights.tf_idf(made, idf)
    weights = token_weights.unit_length(weights)
    kernel, bias = token_weights.logistic_regression(terms, weights, label, size=V, classes=C, tolerance=1e-5)
    theirs = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(dense(terms, weights), label)
    assert np.allclose(kernel, theirs.coef_.T, atol=2e-3)
    assert np.allclose(bias - bias.mean(), theirs.intercept_ - theirs.intercept_.mean(), atol=2e-3)
    logits = dense(terms, weights) @ kernel + bias
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(p, theirs.predict_proba(dense(terms, weights)), atol=5e-4)
    assert np.mean(logits.argmax(axis=1) == label) > 0.6


def test_rank_correlation_is_scipys_with_ties():
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 9, 53), rng.normal(size=53)
    assert token_weights.rank_correlation(first, second) == pytest.approx(scipy.stats.spearmanr(first, second)[0])
    assert token_weights.rank_correlation(first, -(first**3)) == pytest.approx(-1)
    assert np.isnan(token_weights.rank_correlation(np.ones(5), np.arange(5)))


def test_mutual_information_is_scikit_learns(texts):
    made, label = texts
    ours = token_weights.mutual_information(made, label, size=V, classes=C)
    for term in range(V):
        present = [term in ids for ids in made]
        assert ours[term] == pytest.approx(mutual_info_score(present, label) / np.log(2), abs=1e-12)
    assert ours[5] == ours[6] == 0 and ours[8] > 0.05


def test_the_bits_of_an_occurrence_are_counted_on_the_other_half(texts):
    made, label = texts
    ours = token_weights.occurrence_bits(made, label, size=V, classes=C, prior_texts=3.0)
    prior = np.bincount(label) / len(label)
    for term in (5, 8, 15):
        means = []
        for part in (0, 1):
            seen = [c for i, (ids, c) in enumerate(zip(made, label, strict=True)) if i % 2 == part and term in ids]
            told = [c for i, (ids, c) in enumerate(zip(made, label, strict=True)) if i % 2 != part and term in ids]
            share = [(seen.count(c) + 3 * prior[c]) / (len(seen) + 3) for c in range(C)]
            means.append(np.mean([np.log2(share[c] / prior[c]) for c in told]))
        assert ours[term] == pytest.approx(np.mean(means))
    assert ours[8] > 0.5 > 0.1 > abs(ours[5]) and ours[6] == 0  # a word of class 1, of all texts, of no text


def test_bins_hold_equally_many_and_top_terms_are_those_of_a_class():
    by, values = np.array([5.0, 1.0, 3.0, 2.0]), np.array([50.0, 10.0, 30.0, 20.0])
    assert token_weights.binned(by, values, 2) == ([1.5, 4.0], [15.0, 40.0])
    contribution = np.array([[9.0, 9.0], [3.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    assert token_weights.top_terms(contribution, 2) == [[1, 3], [2, 0]]


def test_latent_semantic_analysis_is_the_dense_decomposition(texts):
    made, _ = texts
    idf = token_weights.inverse_document_frequency(token_weights.document_frequency(made, V), len(made))
    terms, weights = token_weights.tf_idf(made, idf)
    left, values, _ = np.linalg.svd(dense(terms, token_weights.unit_length(weights)).T, full_matrices=False)
    table = embeddings.latent_semantic_analysis(made, V, 4, rounds=40)
    assert np.allclose(table @ table.T, (left[:, :4] * values[:4] ** 2) @ left[:, :4].T, atol=1e-4)
    assert np.allclose(np.linalg.norm(table, axis=0), values[:4], atol=1e-4)
    assert np.all(table[np.abs(table).argmax(axis=0), range(4)] > 0)


@pytest.mark.slow
def test_skip_gram_groups_words_with_common_neighbours():
    """Two topics of five words each. All words of a text are of one topic, so that neighbours share their topic."""
    rng = np.random.default_rng(5)
    made = [np.append(rng.integers(4, 9, 12) + 5 * (number % 2), 2) for number in range(200)]
    table = embeddings.skip_gram(made, 14, 7, steps=300, batch_size=256, window=3, negatives=3, subsample=1.0)
    assert table.shape == (14, 7)
    for term in range(4, 14):
        assert {(other - 4) // 5 for other in embeddings.nearest(table, term, 4)} == {(term - 4) // 5}


def test_a_word_is_moved_towards_its_context():
    table = np.array([[0, 0], [2.0, 0.0], [1.0, 1.5], [1.0, -1.5]])
    up, down = (embeddings.in_context(table, np.array([1, other]))[0] for other in (2, 3))
    assert up[1] > 0 > down[1] and up[0] == pytest.approx(down[0])
    x = table[[1, 2]]
    weights = np.exp(x[0] @ x.T) / np.exp(x[0] @ x.T).sum()
    assert np.allclose(up, weights @ x)


def test_principal_components_are_those_of_the_covariance():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(31, 5)) * [5, 3, 1, 0.5, 0.1]
    mean, directions, projected = embeddings.principal_components(vectors)
    values, axes = np.linalg.eigh(np.cov(vectors.T))
    assert np.allclose(np.abs(directions @ axes[:, ::-1][:, :2]), np.eye(2), atol=1e-9)
    assert np.allclose(projected.var(axis=0, ddof=1), values[::-1][:2])
    assert np.allclose(mean + projected @ directions, mean + (vectors - mean) @ directions.T @ directions)
    assert jax.config.jax_numpy_dtype_promotion == "strict"
