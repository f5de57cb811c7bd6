"""Labelled brackets: cases counted by hand, and a second implementation over trees of the grammar."""

import itertools
import random

import pytest

from attention_research.data import grammar
from attention_research.data.trees import Tree, linearised
from attention_research.tasks.parseval import ParsevalEvaluation, brackets, flat, parseval

GOLD = "(S (NP XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP )VP . )S"
#: S 0-7, NP 0-2, VP 2-7, NP 3-4, PP 4-7, NP 5-7: six brackets over seven words
SCORES = {
    "the same": (GOLD, 6, 6, True),
    "the PP in the NP": ("(S (NP XX XX )NP (VP XX (NP (NP XX )NP (PP XX (NP XX XX )NP )PP )NP )VP . )S", 6, 7, True),
    "one bracket": ("(S XX XX XX XX XX XX XX )S", 1, 1, True),
    "another label": ("(S (NP XX XX )NP (VP XX (NP XX )NP (ADVP XX (NP XX XX )NP )ADVP )VP . )S", 5, 6, True),
    "no punctuation": ("(S (NP XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP )VP )S", 6, 6, True),
    "punctuation inside": ("(S (NP XX XX )NP , (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP . )VP )S", 6, 6, True),
    "a bracket twice": ("(S (S (NP XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP )VP . )S )S", 6, 7, True),
    "ends missing": ("(S (NP XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX XX", 6, 6, False),
    "beginnings missing": ("XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP )VP . )S", 6, 6, False),
    "an end of another label": ("(S (NP XX XX )VP (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP )VP . )S", 6, 6, False),
    "two trees": ("(NP XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX XX )NP )PP )VP .", 5, 5, False),
    "an end too many": (f"{GOLD} )S", 6, 7, False),
    "a word too few": ("(S (NP XX XX )NP (VP XX (NP XX )NP (PP XX (NP XX )NP )PP )VP . )S", 0, 6, True),
    "nothing": ("", 0, 0, False),
}


@pytest.mark.parametrize("case", SCORES, ids=[name.replace(" ", "-") for name in SCORES])
def test_one_sentence_by_hand(case):
    hypothesis, matched, given, well_formed = SCORES[case]
    scores = parseval([hypothesis], [GOLD])
    precision, recall = 100 * matched / given if given else 0.0, 100 * matched / 6
    assert scores["precision"] == pytest.approx(precision) and scores["recall"] == pytest.approx(recall)
    expected = 2 * precision * recall / (precision + recall) if matched else 0.0
    assert scores["f1"] == pytest.approx(expected)
    assert scores["malformed"] == 100.0 * (not well_formed)
    assert scores["complete_match"] == 100.0 * (matched == given == 6)
    assert scores["wrong_length"] == 100.0 * (case in ("a word too few", "nothing"))


def test_particles_count_as_adverbs_and_empty_brackets_do_not_count():
    assert parseval(["(VP XX (PRT XX )PRT )VP"], ["(VP XX (ADVP XX )ADVP )VP"])["f1"] == 100.0
    assert brackets("(S XX (PRN , . )PRN (NP )NP )S")[0] == {("S", 0, 1): 1}


def test_a_corpus_counts_brackets_not_sentences():
    """2 of 2 and 1 of 4 predicted brackets are correct, out of 2 and 3 gold ones: 3 / 6 and 3 / 5; F1 6 / 11."""
    hypotheses = ["(S XX (NP XX )NP )S", "(S (A XX )A (B XX )B (C XX )C )S"]
    references = ["(S XX (NP XX )NP )S", "(S (NP XX XX )NP (VP XX )VP )S"]
    scores = parseval(hypotheses, references)
    assert (scores["precision"], scores["recall"]) == (pytest.approx(50.0), pytest.approx(60.0))
    assert scores["f1"] == pytest.approx(600 / 11) and scores["complete_match"] == 50.0


def spans(tree: Tree, start: int = 0) -> tuple[list[tuple[str, int, int]], int]:
    """The brackets of a tree by recursion over the tree itself, and its number of words."""
    if tree.is_tag:
        return [], 0 if tree.label in (",", ".") else 1
    inside, size = [], 0
    for child in tree.children:
        found, words = spans(child, start + size)
        inside, size = inside + found, size + words
    return [(tree.label, start, start + size), *inside], size


def test_is_the_count_over_the_trees_themselves():
    """Compares trees of the grammar with equally long trees. Spans come from recursion, matches from list removal."""
    by_length = {}
    for tree in itertools.islice(grammar.trees(), 400):
        found, size = spans(tree)
        by_length.setdefault(size, []).append((linearised(tree), found))
    pairs = [pair for same in by_length.values() for pair in zip(same, same[1:], strict=False)]
    random.Random(0).shuffle(pairs)
    matched = 0
    for (_, ours), (_, theirs) in pairs:
        left = list(theirs)
        for bracket in ours:
            if bracket in left:
                left.remove(bracket)
                matched += 1
    given, wanted = (sum(len(pair[side][1]) for pair in pairs) for side in (0, 1))
    scores = parseval([ours for (ours, _), _ in pairs], [theirs for _, (theirs, _) in pairs])
    assert len(pairs) > 300 and 0 < matched < given
    assert scores["precision"] == pytest.approx(100 * matched / given)
    assert scores["recall"] == pytest.approx(100 * matched / wanted)
    assert scores["malformed"] == scores["wrong_length"] == 0.0


def test_the_evaluation_names_its_floor():
    evaluation = ParsevalEvaluation(examples=3)
    scores = evaluation.score([GOLD], [GOLD], ["the dog sees him in the park ."])
    assert flat(GOLD) == "(S XX XX XX XX XX XX XX )S"
    assert scores["f1"] == 100.0 and scores["flat_f1"] == pytest.approx(200 / 7) and "signature" not in scores
    assert (evaluation.split, evaluation.batch_size, evaluation.examples) == ("test", 64, 3)
    line = evaluation.summary(scores)
    assert line.startswith("F1 100.00 (precision 100.00, recall 100.00; labelled brackets") and "28.57" in line
