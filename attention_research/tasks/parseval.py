"""Scores parse trees by labelled brackets (PARSEVAL, Black et al. 1991), as evalb does (Sekine & Collins 1997).

A bracket is (label, first word, last word + 1) of a constituent. Part-of-speech tags are not brackets. Precision,
recall and F1 are computed over the brackets of all sentences, and a bracket that occurs twice counts twice. As in evalb
with COLLINS.prm, punctuation does not count as words and PRT equals ADVP. The label around the whole tree (TOP) is not
part of the trees.

A decoder may generate an invalid tree. As in Vinyals et al. 2015, section 3.2, brackets are then added at the beginning
or the end until they balance. Such a tree is `malformed`. A tree with a closing label that differs from the opening
label is also malformed, and the opening label counts. A tree with another number of words than its reference has no
matches, and its brackets count as wrong; evalb would skip the sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attention_research.data.trees import PUNCTUATION
from attention_research.tasks.evaluation import Scores, TextEvaluation
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric

#: (label, first word, last word + 1)
Bracket = tuple[str, int, int]
_SAME = {"PRT": "ADVP"}
SIGNATURE = "labelled brackets|tags:no|punctuation:deleted|PRT=ADVP|repair:balance"


def brackets(text: str) -> tuple[Counter[Bracket], int, bool]:
    """Parses a linearised tree. Returns (brackets, number of words, whether the text is one well-formed tree).

    >>> brackets("(S (NP XX )NP (VP XX )VP . )S")
    (Counter({('NP', 0, 1): 1, ('VP', 1, 2): 1, ('S', 0, 2): 1}), 2, True)
    """
    found: list[Bracket] = []
    open_: list[tuple[str, int]] = []
    words, trees, well_formed = 0, 0, True
    for token in text.split():
        if len(token) > 1 and token[0] == "(":
            trees += not open_
            open_.append((token[1:], words))
        elif len(token) > 1 and token[0] == ")":
            well_formed &= bool(open_)
            label, start = open_.pop() if open_ else (token[1:], 0)
            well_formed &= label == token[1:]
            trees += not trees
            found.append((label, start, words))
        else:
            well_formed &= bool(open_)
            words += token not in PUNCTUATION
    well_formed &= not open_ and trees == 1
    found += [(label, start, words) for label, start in reversed(open_)]
    kept = ((_SAME.get(label, label), start, end) for label, start, end in found if end > start)
    return Counter(kept), words, well_formed


def parseval(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """The scores of linearised trees, in percent. Undefined values (without any bracket) are 0.

    The scores are `f1`, `precision`, `recall`, `complete_match` (sentences with exactly the brackets of the reference),
    `malformed` (texts that are not a tree) and `wrong_length` (trees with another number of words).
    """
    matched = given = wanted = complete = malformed = wrong_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        ours, our_words, well_formed = brackets(hypothesis)
        theirs, their_words, _ = brackets(reference)
        right = (ours & theirs).total() if our_words == their_words else 0
        matched, given, wanted = matched + right, given + ours.total(), wanted + theirs.total()
        complete += our_words == their_words and ours == theirs
        malformed += not well_formed
        wrong_length += our_words != their_words
    share = lambda part, whole: 100.0 * part / whole if whole else 0.0
    return {
        "f1": share(2 * matched, given + wanted),
        "precision": share(matched, given),
        "recall": share(matched, wanted),
        "complete_match": share(complete, len(references)),
        "malformed": share(malformed, len(references)),
        "wrong_length": share(wrong_length, len(references)),
    }


def flat(tree: str) -> str:
    """A trivial tree with the same number of words and one bracket around all of them.

    >>> flat("(S (NP XX )NP (VP XX )VP . )S")
    '(S XX XX )S'
    """
    return " ".join(["(S", *["XX"] * brackets(tree)[1], ")S"])


class ParsevalEvaluation(TextEvaluation):
    """Scores parsing by labelled brackets."""

    metrics = (
        PERPLEXITY,
        Metric(
            "f1",
            "F1",
            "higher",
            floors=(
                Floor(
                    "flat", "one bracket around all words", "flat_f1", "one bracket around all words", "one bracket's"
                ),
            ),
        ),
        Metric("precision", "precision", "higher"),
        Metric("recall", "recall", "higher"),
        Metric("complete_match", "complete match, %", "higher"),
        Metric("malformed", "malformed, %", "lower"),
        Metric("wrong_length", "wrong length, %", "lower"),
    )

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """The scores of `parseval` with `f1_signature`, and `flat_f1`, the F1 of one bracket around all words."""
        floor = parseval([flat(reference) for reference in references], references)["f1"]
        return {**parseval(hypotheses, references), "f1_signature": SIGNATURE, "flat_f1": floor}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floor: one bracket around all words."""
        from attention_research.tasks.floors.written import tree_floors

        return tree_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        found = f"precision {scores['precision']:.2f}, recall {scores['recall']:.2f}; {scores['f1_signature']}"
        failed = f"malformed {scores['malformed']:.1f} %, of another length {scores['wrong_length']:.1f} %"
        return f"F1 {scores['f1']:.2f} ({found}) · {failed} · one bracket {scores['flat_f1']:.2f}"
