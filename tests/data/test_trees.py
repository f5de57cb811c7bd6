"""Trees: reading and linearising by hand; the grammar's trees and their data set."""

import itertools
import math
import random
import re

import pytest

from attention_research.data import grammar, sources
from attention_research.data.by_hash import split_of
from attention_research.data.trees import linearised, read, sentence

JOHN = "(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))"
LINEARISED = {
    "the paper's example": (JOHN, "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"),
    "a root around it": (f"(ROOT {JOHN})", "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"),
    "the treebank's unnamed root": (f"(\n  {JOHN} )", "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"),
    "punctuation": (
        "(S (`` ``) (NP (PRP He)) (, ,) (VP (VBD left)) (: --) ('' '') (. ?))",
        "(S `` (NP XX )NP , (VP XX )VP : '' . )S",
    ),
    "function tags": ("(S (NP-SBJ (PRP It)) (VP (VBZ rains)))", "(S (NP-SBJ XX )NP-SBJ (VP XX )VP )S"),
}


@pytest.mark.parametrize("case", LINEARISED, ids=[name.replace(" ", "-") for name in LINEARISED])
def test_linearising(case):
    text, expected = LINEARISED[case]
    assert linearised(read(text)) == expected


def test_the_words_of_a_tree():
    assert sentence(read(JOHN)) == "John has a dog ."
    assert list(read(JOHN).leaves())[1:3] == [("VBZ", "has"), ("DT", "a")]


@pytest.mark.parametrize(
    "text", ["", "word", "(S (NP (NN a))", "(S (NN a)) (S (NN b))", "(S)", "(S a b)", "(S (NN a) b)"]
)
def test_text_that_is_not_a_tree_is_refused(text):
    with pytest.raises(ValueError):
        read(text)


def some_trees(count=600):
    return list(itertools.islice(grammar.trees(), count))


def test_the_grammars_sentences_are_distinct_and_reproducible():
    trees = some_trees()
    assert trees == some_trees()
    words = [sentence(tree) for tree in trees]
    assert len(set(words)) == len(words) and max(len(line.split()) for line in words) <= grammar.MAX_WORDS
    assert {split_of(line) for line in words} == {"train", "validation", "test"}
    assert len({linearised(tree) for tree in trees}) > 300


def test_every_rule_is_reachable_and_has_its_weight():
    """All symbols are defined and used. Drawn rules have the proportions of their weights (5 standard deviations)."""
    used = {part for rules in grammar.RULES.values() for _, right in rules for part in right.split()} | {"S"}
    assert used == grammar.RULES.keys() | grammar.WORDS.keys() and not grammar.RULES.keys() & grammar.WORDS.keys()
    chance, draws = random.Random(5), 4000
    for symbol, rules in grammar.RULES.items():
        assert math.isclose(sum(weight for weight, _ in rules), 1.0), symbol
    rules = grammar.RULES["VP-sg"]
    drawn = [grammar._drawn(chance, rules) for _ in range(draws)]
    for weight, right in rules:
        assert abs(drawn.count(right) - draws * weight) < 5 * math.sqrt(draws * weight * (1 - weight)), right


def test_verbs_agree_with_their_subjects():
    """In the first clause of each tree, the head of the subject and the first verb have the same number."""
    plural = re.compile(r"NNS|CD")
    checked = 0
    for tree in some_trees():
        for subject, predicate in zip(tree.children, tree.children[1:], strict=False):
            tags = [tag for tag, _ in subject.leaves()] if subject.label == "NP" else []
            verb = next((tag for tag, _ in predicate.leaves() if tag in ("VBZ", "VBP")), None)
            if predicate.label == "VP" and predicate.children[0].label == verb and tags[0] not in ("PRP", "NNP"):
                head = [tag for tag in tags if tag in ("NN", "NNS")][0]
                joined = any(child.label == "CC" for child in subject.children)
                assert (verb == "VBP") == (joined or bool(plural.match(head))), sentence(tree)
                checked += 1
    assert checked > 200


def test_the_generated_data_set(data_home, monkeypatch, pair_data):
    """Through the builder and `data prepare`: no package is fetched, and the splits are those of the sentences.

    A tree that became tokens is the same tree again.
    """
    monkeypatch.setattr(grammar, "SENTENCES", 300)
    reports = []
    counts = sources.prepare_dataset("parse_generated/en", reports.append)
    expected = {"train": {}, "validation": {}, "test": {}}
    for tree in some_trees(300):
        expected[split_of(sentence(tree))][sentence(tree)] = linearised(tree)
    assert counts == {split: len(pairs) for split, pairs in expected.items()} and sum(counts.values()) == 300
    for split, pairs in expected.items():
        assert {pair["en"]: pair["tree"] for pair in sources.open_split("parse_generated/en", split)} == pairs
    short = sources.prepare_dataset("parse_generated/short", lambda line: None)
    for split, pairs in expected.items():
        kept = {words: tree for words, tree in pairs.items() if len(tree.split()) <= 31}
        assert {pair["en"]: pair["tree"] for pair in sources.open_split("parse_generated/short", split)} == kept
        assert 0 < short[split] == len(kept) < counts[split]
    assert sources.languages("parse_generated/en") == ("en", "tree")
    assert reports[0] == "building parse_generated/en" and len(reports) == 2
    data = pair_data("parse_generated/en", source_language="en", target_language="tree", pieces=211).prepare()
    trees = data.text("test")[1]
    assert data.tokenizer.decode(data.tokenizer.encode(trees)) == trees and len(trees) == counts["test"]
