"""GLUE's and SuperGLUE's metrics against scikit-learn and SciPy on random texts, and by hand where neither has them."""

import warnings

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics

from attention_research.tasks import glue_metrics

#: (labels, shares of each label and of other texts in the hypotheses, shares of each label in the references).
CASES = {
    "two": (("no", "yes"), (0.4, 0.6, 0.0), (0.3, 0.7)),
    "two-invalid": (("no", "yes"), (0.3, 0.4, 0.3), (0.3, 0.7)),
    "three": (("a", "b", "c d"), (0.2, 0.3, 0.5, 0.0), (0.1, 0.3, 0.6)),
    "three-invalid": (("a", "b", "c d"), (0.2, 0.3, 0.3, 0.2), (0.1, 0.3, 0.6)),
    "one-written": (("no", "yes"), (0.0, 1.0, 0.0), (0.5, 0.5)),
    "one-true": (("no", "yes"), (0.5, 0.5, 0.0), (0.0, 1.0)),
    "one-and-right": (("no", "yes"), (0.0, 1.0, 0.0), (0.0, 1.0)),
    "none-valid": (("no", "yes"), (0.0, 0.0, 1.0), (0.5, 0.5)),
}
NONSENSE = ("", "maybe", "no yes")


def drawn(case, seed=0):
    """(hypotheses, references, their numbers, the labels). -1 is the number of a text that is not a label."""
    labels, written, true = CASES[case]
    rng = np.random.default_rng(seed)
    said, gold = rng.choice(len(written), 97, p=written), rng.choice(len(true), 97, p=true)
    texts = [labels[k] if k < len(labels) else NONSENSE[i % 3] for i, k in enumerate(said)]
    return texts, [labels[k] for k in gold], np.where(said < len(labels), said, -1), gold, labels


@pytest.fixture(autouse=True)
def quiet():
    """Silences scikit-learn's warnings about scores that it sets to 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("case", CASES)
def test_metrics_of_labels_are_scikit_learns(case):
    hypotheses, references, said, gold, labels = drawn(case)
    assert glue_metrics.accuracy(hypotheses, references) == pytest.approx(100 * metrics.accuracy_score(gold, said))
    macro = metrics.f1_score(gold, said, labels=range(len(labels)), average="macro", zero_division=0)
    assert glue_metrics.f1_macro(hypotheses, references, labels) == pytest.approx(100 * macro)
    assert glue_metrics.matthews(hypotheses, references, labels) == pytest.approx(
        100 * metrics.matthews_corrcoef(gold, said)
    )
    if len(labels) == 2:
        opposite = np.where(said < 0, 1 - gold, said)  # T5's f1_score_with_invalid
        expected = 100 * metrics.f1_score(gold, opposite, zero_division=0)
        assert glue_metrics.f1(hypotheses, references, "yes") == pytest.approx(expected)


def test_the_labels_are_the_references_where_none_are_given():
    hypotheses, references, *_, labels = drawn("three-invalid")
    for metric, share in ((glue_metrics.f1_macro, 3 / 4), (glue_metrics.matthews, 1)):
        own = metric(hypotheses, references)
        assert own == metric(hypotheses, references, labels) > 1
        assert metric(hypotheses, references, (*labels, "never")) == pytest.approx(share * own)


def test_space_around_an_answer_does_not_matter():
    assert glue_metrics.accuracy([" yes", "no"], ["yes", "no "]) == 100.0
    assert glue_metrics.matthews([" yes", "no"], ["yes", "no "]) == 100.0
    assert glue_metrics.accuracy(["y es", "No"], ["yes", "no"]) == 0.0


def test_correlations_are_scipys_with_ties_and_without_numbers():
    rng = np.random.default_rng(0)
    gold = np.round(rng.uniform(0, 5, 101) * 5) / 5
    said = np.round((gold + rng.normal(0, 1.5, 101)) * 5) / 5
    texts = [f"{x:.1f}" for x in said]
    for place, text in ((3, "five"), (17, ""), (53, "nan"), (71, "inf")):
        texts[place], said[place] = text, -1.0
    references = [f"{x:.1f}" for x in gold]
    pearson, spearman = scipy.stats.pearsonr(said, gold)[0], scipy.stats.spearmanr(said, gold)[0]
    assert 0.2 < pearson < 0.9 and abs(pearson - spearman) > 1e-3
    assert glue_metrics.pearson(texts, references) == pytest.approx(100 * pearson)
    assert glue_metrics.spearman(texts, references) == pytest.approx(100 * spearman)


@pytest.mark.parametrize("texts", [["1", "1", "1"], ["a", "b", "c"], []], ids=["constant", "no-numbers", "empty"])
def test_a_correlation_with_a_constant_is_zero(texts):
    references = ["1.0", "2.0", "4.0"][: len(texts)]
    for metric in (glue_metrics.pearson, glue_metrics.spearman):
        assert metric(texts, references) == metric(references, texts) == 0.0


def test_empty_input_scores_zero():
    for metric in (glue_metrics.accuracy, glue_metrics.f1_macro, glue_metrics.matthews):
        assert metric([], []) == 0.0
    assert glue_metrics.f1([], [], "yes") == 0.0
    assert glue_metrics.multirc([], [], [], "yes") == glue_metrics.record([], [], []) == (0.0, 0.0)


def test_multirc_is_over_answers_and_over_questions():
    """Question 5 has three answers, one of them wrong.

    Question 2 has two correct answers. The answer to question 3 is not a label.
    """
    questions = [5, 2, 5, 5, 2, 3]
    references = ["True", "True", "False", "True", "False", "True"]
    hypotheses = ["True", "True", "False", "False", "False", "so-so"]
    f1a, exact = glue_metrics.multirc(hypotheses, references, questions, "True")
    opposite = ["True", "True", "False", "False", "False", "False"]
    assert f1a == pytest.approx(100 * metrics.f1_score(references, opposite, pos_label="True"))
    assert exact == pytest.approx(100 / 3)


def test_record_takes_the_best_reference_of_a_query():
    """Query 1 ("nurias capital nuria") shares 2 tokens with a reference of 2 tokens, and 1 with a reference of 1."""
    queries = ["1", "2", "1", "3"]
    references = ["Nuria Capital", "the E.U.", "Capital", "x"]
    hypotheses = ["Nuria's Capital Nuria", "EU", "ignored", "y"]
    exact, shared = glue_metrics.record(hypotheses, references, queries)
    assert exact == pytest.approx(100 / 3) and shared == pytest.approx(100 * (max(2 * 2 / 5, 2 * 1 / 4) + 1) / 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  cat,\tan Ant!", "cat ant"),
        ("theatre of a Thane", "theatre of thane"),
        ("U.S.A.", "usa"),
        ("A-an the", "aan"),
        ("a the", ""),
    ],
)
def test_normalisation_is_squads(text, expected):
    """Lower case. Punctuation is removed, articles become a space, and runs of white space become one space."""
    assert glue_metrics.normalized(text) == expected


def test_common_tokens_count_with_their_multiplicity():
    assert glue_metrics.token_f1("b b a", "b a c a") == pytest.approx(2 * 2 / 7)
    assert glue_metrics.token_f1("", "") == glue_metrics.token_f1("a", "b") == 0.0
