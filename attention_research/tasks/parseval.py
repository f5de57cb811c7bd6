"""Parsing scored by labelled brackets (PARSEVAL, Black et al. 1991), by evalb's conventions (Sekine & Collins 1997).

A bracket is (label, first word, last word + 1) of a constituent; tags are none. Precision, recall and F1 are over the
brackets of all sentences together, a bracket that stands twice counting twice. As evalb with COLLINS.prm does,
punctuation does not count as words and PRT is ADVP; the label around the whole (TOP) was left out of the trees already.

A decoder may write what is no tree. Vinyals et al. 2015, section 3.2: brackets are added at the beginning or the end
until they balance (such a tree is `malformed` here; so is one of which an end has another label than its beginning: the
beginning's counts). A tree with another number of words than its reference matches nothing, and its brackets count as
wrong; evalb would leave the sentence out.
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
    """(brackets, number of words, whether the text is one well-formed tree) of a linearised tree.

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
            label, start = open_.pop() if open_ else (token[1:], 0)
            well_formed &= label == token[1:] and trees > 0
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
    """Scores of linearised trees, in percent; what is undefined (no bracket at all) is 0.

    `f1`, `precision`, `recall`; `complete_match`: sentences of which all brackets are right and none is missing;
    `malformed` and `wrong_length`: sentences whose text was no tree, or had another number of words.
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
    """The tree of as many words that has one bracket: what is right without having looked.

    >>> flat("(S (NP XX )NP (VP XX )VP . )S")
    '(S XX XX )S'
    """
    return " ".join(["(S", *["XX"] * brackets(tree)[1], ")S"])


class ParsevalEvaluation(TextEvaluation):
    """Parsing, scored by labelled brackets."""

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
        """The scores of `parseval` with their `f1_signature`, and `flat_f1`: that of one bracket around everything."""
        floor = parseval([flat(reference) for reference in references], references)["f1"]
        return {**parseval(hypotheses, references), "f1_signature": SIGNATURE, "flat_f1": floor}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """As `Evaluation.floors`: one bracket around all words."""
        from attention_research.tasks.floors.written import tree_floors

        return tree_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        found = f"precision {scores['precision']:.2f}, recall {scores['recall']:.2f}; {scores['f1_signature']}"
        failed = f"malformed {scores['malformed']:.1f} %, of another length {scores['wrong_length']:.1f} %"
        return f"F1 {scores['f1']:.2f} ({found}) · {failed} · one bracket {scores['flat_f1']:.2f}"
