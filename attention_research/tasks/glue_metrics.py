"""Metrics of GLUE (Wang et al. 2018, arXiv 1804.07461) and SuperGLUE (Wang et al. 2019, arXiv 1905.00537), in percent.

    task                             metrics, whose mean is the task's score
    CoLA                             `matthews`
    SST-2, MNLI, QNLI, RTE, WNLI     `accuracy`
    BoolQ, COPA, WiC, WSC            `accuracy`
    MRPC, QQP                        `accuracy`, `f1`
    STS-B                            `pearson`, `spearman`
    CB                               `accuracy`, `f1_macro`
    MultiRC                          `multirc`: F1a, exact match
    ReCoRD (and SQuAD)               `record`: exact match, token F1

They are of texts, as a model of text to text writes them, stripped: a hypothesis that is no label is wrong whatever the
label is (Raffel et al. 2020, section 2.4). Where that leaves open how wrong, T5's released code says it: for `f1` it is
the other label than the right one, for `f1_macro` of no class, for `matthews` a class more, for a correlation -1. What
is undefined (a correlation with a constant, say) is 0.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
#: What stands for a text that is no number: outside of STS-B's scale, which is 0 to 5.
NO_NUMBER = -1.0

Texts = Sequence[str]


def accuracy(hypotheses: Texts, references: Texts) -> float:
    """How many hypotheses are their reference."""
    return _percent([h.strip() == r.strip() for h, r in zip(hypotheses, references, strict=True)])


def f1(hypotheses: Texts, references: Texts, positive: str) -> float:
    """2 TP / (2 TP + FP + FN) of the label `positive`, of two labels.

    >>> f1(["yes", "yes", "no", "perhaps"], ["yes", "no", "no", "no"], "yes")
    50.0
    """
    labels = {reference.strip() for reference in references} | {positive}
    right = np.array([reference.strip() == positive for reference in references], bool)
    said = [h.strip() == positive if h.strip() in labels else not r for h, r in zip(hypotheses, right, strict=True)]
    both = 2 * int(np.sum(right & np.array(said, bool)))
    return _ratio(both, int(np.sum(right)) + sum(said))


def f1_macro(hypotheses: Texts, references: Texts, labels: Texts = ()) -> float:
    """The mean over `labels` (none given: those of the references) of each one's F1."""
    counts = _confusion(hypotheses, references, labels)
    size = counts.sum(axis=0) + counts.sum(axis=1)
    of_labels = 200.0 * np.diag(counts)[:-1] / np.maximum(size[:-1], 1)
    return float(np.mean(of_labels)) if len(of_labels) else 0.0


def matthews(hypotheses: Texts, references: Texts, labels: Texts = ()) -> float:
    """Matthews's correlation (1975) of two `labels` or, by Gorodkin 2004, of more.

        (c s - sum_k t_k p_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))

    of s texts, c of them right, t_k labelled k and p_k taken for k.
    """
    counts = [[int(x) for x in row] for row in _confusion(hypotheses, references, labels)]  # exact, however many
    labelled, taken = [sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]
    size, right = sum(labelled), sum(counts[k][k] for k in range(len(counts)))
    together = right * size - sum(t * p for t, p in zip(labelled, taken, strict=True))
    spread = (size**2 - sum(p * p for p in taken)) * (size**2 - sum(t * t for t in labelled))
    return _ratio(together, math.sqrt(spread))


def pearson(hypotheses: Texts, references: Texts) -> float:
    """Pearson's correlation of the numbers that the texts are."""
    return _correlation(*_numbers(hypotheses, references))


def spearman(hypotheses: Texts, references: Texts) -> float:
    """Spearman's: Pearson's of the ranks; equal numbers share the mean of theirs."""
    return _correlation(*map(_ranks, _numbers(hypotheses, references)))


def multirc(hypotheses: Texts, references: Texts, questions: Sequence[Hashable], positive: str) -> tuple[float, float]:
    """(F1a, exact match) of MultiRC, where a question has several answers, each right or wrong: F1 over all answers of
    all questions (Khashabi et al. 2018), and how many of `questions` have every answer judged as it should be.

    >>> multirc(["True", "False", "True"], ["True", "False", "False"], [7, 7, 8], "True")
    (66.66666666666667, 50.0)
    """
    right: dict[Hashable, bool] = {}
    for hypothesis, reference, question in zip(hypotheses, references, questions, strict=True):
        right[question] = right.get(question, True) and hypothesis.strip() == reference.strip()
    return f1(hypotheses, references, positive), _percent(list(right.values()))


def record(hypotheses: Texts, references: Texts, queries: Sequence[Hashable]) -> tuple[float, float]:
    """(exact match, token F1) of ReCoRD (Zhang et al. 2018), both the best over the references of a query, of texts
    `normalized` as SQuAD's.

    A query stands as often as it has references, and the first of its hypotheses counts: greedy decoding writes the
    same one each time.

    >>> record(["The Hague", "The Hague"], ["Hague", "Den Haag"], [7, 7])
    (100.0, 100.0)
    """
    grouped: dict[Hashable, tuple[str, list[str]]] = {}
    for hypothesis, reference, query in zip(hypotheses, references, queries, strict=True):
        grouped.setdefault(query, (normalized(hypothesis), []))[1].append(normalized(reference))
    exact = [hypothesis in references for hypothesis, references in grouped.values()]
    shared = [max(token_f1(hypothesis, one) for one in references) for hypothesis, references in grouped.values()]
    return _percent(exact), _percent(shared)


def normalized(text: str) -> str:
    """SQuAD's text (Rajpurkar et al. 2016): lower case, without punctuation, articles and needless space.

    >>> normalized("The  U.S. an' A")
    'us'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(hypothesis: str, reference: str) -> float:
    """2 c / (m + n) of m and n tokens between spaces, c of them in both as often; 0 where there are none."""
    ours, theirs = Counter(hypothesis.split()), Counter(reference.split())
    return 2 * (ours & theirs).total() / max(ours.total() + theirs.total(), 1)


def _percent(values: Sequence[float]) -> float:
    return 100.0 * float(np.mean(values)) if len(values) else 0.0


def _ratio(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


def _confusion(hypotheses: Texts, references: Texts, labels: Texts) -> np.ndarray:
    """[labels + 1, labels + 1] how often a text of one label was taken for another; the last is what is no label."""
    known = sorted({label.strip() for label in labels or references})
    place = {label: index for index, label in enumerate(known)}
    counts = np.zeros((len(known) + 1,) * 2, np.int64)
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        counts[place.get(reference.strip(), -1), place.get(hypothesis.strip(), -1)] += 1
    return counts


def _numbers(hypotheses: Texts, references: Texts) -> tuple[np.ndarray, np.ndarray]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            return NO_NUMBER
        return value if math.isfinite(value) else NO_NUMBER

    pairs = [(number(h), number(r)) for h, r in zip(hypotheses, references, strict=True)]
    return np.array([h for h, _ in pairs]), np.array([r for _, r in pairs])


def _ranks(x: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = (values - values.mean() for values in (x, y))
    return 100.0 * float(np.clip(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)), -1.0, 1.0))
