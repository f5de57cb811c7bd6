"""Scores of names by hand, and against scikit-learn where it has the measure."""

import numpy as np
import pytest

from attention_research.tasks.naming import (
    NamingEvaluation,
    area_under_curve,
    first_words,
    mixing_weights,
    naming_scores,
    sub_token_scores,
)


@pytest.mark.parametrize(
    ("suggested", "name", "expected"),
    [
        ("set use cache", "set use browser cache", (1, 3 / 4, 6 / 7)),
        ("cache set", "set cache", (1, 1, 1)),
        ("get get", "get", (1 / 2, 1, 2 / 3)),
        ("<unknown> cache", "set cache", (1 / 2, 1 / 2, 1 / 2)),
        ("<unknown>", "<unknown>", (0, 0, 0)),
        ("", "get", (0, 0, 0)),
    ],
)
def test_one_name_by_hand(suggested, name, expected):
    assert sub_token_scores(suggested.split(), name.split()) == pytest.approx(expected)


def test_scores_are_means_over_functions():
    suggestions = [["get size", "set size", "size"], ["close close", "shut", "a", "b", "c", "close zebra"], []]
    scores = naming_scores(suggestions, ["set size", "close zebra", "run"], known={"set", "size", "close", "run"})
    assert scores["precision"] == pytest.approx(100 * (1 / 2 + 1 / 2) / 3)
    assert scores["recall"] == pytest.approx(100 * (1 / 2 + 1 / 2) / 3)
    assert scores["f1"] == pytest.approx(100 * (1 / 2 + 2 / 4) / 3)
    assert scores["f1_at_5"] == pytest.approx(100 * (1 + 2 / 4) / 3)  # the sixth suggestion does not count
    assert (scores["exact_match"], scores["exact_match_at_5"]) == (0.0, pytest.approx(100 / 3))
    assert scores["repeated"] == pytest.approx(100 / 3)
    assert (scores["oov_functions"], scores["oov_accuracy"], scores["oov_accuracy_at_5"]) == (1, 0, 0)


def test_sub_tokens_outside_the_vocabulary():
    scores = naming_scores([["zebra set", "okapi zebra"], ["x"]], ["zebra okapi zebra", "set"], known={"set"})
    assert (scores["oov_functions"], scores["oov_accuracy"], scores["oov_accuracy_at_5"]) == (1, 50.0, 100.0)
    assert "oov_accuracy" not in naming_scores([["x"]], ["set"], known={"set"})
    assert "oov_functions" not in naming_scores([["x"]], ["set"])


def test_the_area_under_the_curve_is_the_share_of_ordered_pairs():
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 7, 23) / 7, rng.integers(0, 7, 31) / 7
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    assert area_under_curve(positive, negative) == pytest.approx(np.mean(pairs))


def test_mixing_weights_by_hand():
    found = mixing_weights([(0.9, True, False), (0.5, True, False), (0.5, False, False), (0.1, False, True)])
    assert found == pytest.approx(
        {"lambda_copied": 0.7, "lambda_invented": 0.5, "lambda_end": 0.1, "lambda_auc": (1 + 1 + 0.5 + 1) / 4}
    )
    assert mixing_weights([(0.3, False, True)]) == {}


def test_first_words_are_possible_words_of_a_name():
    assert first_words("self . <name> = use ( <string> ) cache", 3) == "self use cache"


class Tokenizer:
    known = frozenset({"set", "size"})

    def decode(self, tokens, sources):
        """Ids as letters: 10 is "k". An id of 100 or more copies the source's token at position id - 100."""
        spell = lambda i, source: chr(97 + (int(source[i - 100]) if i >= 100 else int(i)))
        return [" ".join(spell(i, s) for i in row if i > 2) for row, s in zip(tokens, sources, strict=True)]


class Data:
    tokenizer = Tokenizer()

    def text(self, split):
        return {"test": (["d e", "f g"], ["k l", "f"]), "train": (["x"] * 3, ["k l", "m", "k l"])}[split]


def test_the_evaluation_reads_suggestions_with_their_sources():
    """Leaves out padding rows, empty names and missing hypotheses. lambda is the value at the true name."""
    batch = {"source": np.array([[5, 6, 2], [3, 4, 2], [0, 0, 0]]), "target": np.array([[5, 2], [10, 11], [0, 0]])}
    outputs = {
        "tokens": np.array([[[100, 2, 0], [0, 0, 0]], [[2, 0, 0], [10, 11, 2]], [[2, 0, 0], [2, 0, 0]]]),
        "lengths": np.array([[2, 0], [1, 3], [1, 1]]),
        "copy_probability": np.array([[0.9, 0.2], [0.3, 0.1], [0.0, 0.0]]),
    }
    scores = NamingEvaluation(split="test").score([(np.array([1, 0, -1]), batch, outputs)], Data())
    assert scores["f1"] == scores["exact_match"] == 100.0 and scores["functions"] == 2
    assert scores["repeated_true"] == 0.0
    assert scores["samples"] == [{"name": "f", "suggested": ["f"]}, {"name": "k l", "suggested": ["k l"]}]
    assert scores["frequent_name_f1"] == 50.0 and scores["first_words_f1"] == pytest.approx(100 * (2 / 3) / 2)
    assert scores["floor_f1"] == 50.0 and scores["lambda_copied"] == 0.9 and scores["lambda_auc"] == 1.0
    assert "F1 100.0" in NamingEvaluation().summary(scores)
