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

The metrics compare texts, as a text-to-text model generates them, after stripping spaces. A hypothesis that is not a
label always counts as wrong (Raffel et al. 2020, section 2.4). The details follow the released code of T5: such a
hypothesis counts as the other label in `f1`, as no class in `f1_macro`, as an additional class in `matthews`, and as -1
in a correlation. Undefined values, such as a correlation with a constant, are 0.
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
#: The value of a text that is not a number. It is outside of the scale of STS-B, which is 0 to 5.
NO_NUMBER = -1.0

Texts = Sequence[str]


def accuracy(hypotheses: Texts, references: Texts) -> float:
    """The percentage of hypotheses that equal their reference."""
    return _percent([h.strip() == r.strip() for h, r in zip(hypotheses, references, strict=True)])


def f1(hypotheses: Texts, references: Texts, positive: str) -> float:
    """2 TP / (2 TP + FP + FN) for the label `positive` of a task with two labels.

    >>> f1(["yes", "yes", "no", "perhaps"], ["yes", "no", "no", "no"], "yes")
    50.0
    """
    labels = {reference.strip() for reference in references} | {positive}
    right = np.array([reference.strip() == positive for reference in references], bool)
    said = [h.strip() == positive if h.strip() in labels else not r for h, r in zip(hypotheses, right, strict=True)]
    both = 2 * int(np.sum(right & np.array(said, bool)))
    return _ratio(both, int(np.sum(right)) + sum(said))


def f1_macro(hypotheses: Texts, references: Texts, labels: Texts = ()) -> float:
    """The mean F1 over `labels` (default: the labels of the references)."""
    counts = _confusion(hypotheses, references, labels)
    size = counts.sum(axis=0) + counts.sum(axis=1)
    of_labels = 200.0 * np.diag(counts)[:-1] / np.maximum(size[:-1], 1)
    return float(np.mean(of_labels)) if len(of_labels) else 0.0


def matthews(hypotheses: Texts, references: Texts, labels: Texts = ()) -> float:
    """The Matthews correlation (1975) for two `labels`, extended to more labels by Gorodkin 2004.

        (c s - sum_k t_k p_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))

    s is the number of texts, c the number of correct ones, t_k the number with label k and p_k the number predicted as
    k.
    """
    counts = [[int(x) for x in row] for row in _confusion(hypotheses, references, labels)]  # Python integers are exact
    labelled, taken = [sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]
    size, right = sum(labelled), sum(counts[k][k] for k in range(len(counts)))
    together = right * size - sum(t * p for t, p in zip(labelled, taken, strict=True))
    spread = (size**2 - sum(p * p for p in taken)) * (size**2 - sum(t * t for t in labelled))
    return _ratio(together, math.sqrt(spread))


def pearson(hypotheses: Texts, references: Texts) -> float:
    """The Pearson correlation of texts that contain numbers."""
    return _correlation(*_numbers(hypotheses, references))


def spearman(hypotheses: Texts, references: Texts) -> float:
    """The Spearman correlation: the Pearson correlation of the ranks. Equal numbers have their mean rank."""
    return _correlation(*map(_ranks, _numbers(hypotheses, references)))


def multirc(hypotheses: Texts, references: Texts, questions: Sequence[Hashable], positive: str) -> tuple[float, float]:
    """(F1a, exact match) of MultiRC, where each question has several answers that are right or wrong.

    F1a is the F1 over all answers of all questions (Khashabi et al. 2018). Exact match is the percentage of `questions`
    whose answers are all judged correctly.

    >>> multirc(["True", "False", "True"], ["True", "False", "False"], [7, 7, 8], "True")
    (66.66666666666667, 50.0)
    """
    right: dict[Hashable, bool] = {}
    for hypothesis, reference, question in zip(hypotheses, references, questions, strict=True):
        right[question] = right.get(question, True) and hypothesis.strip() == reference.strip()
    return f1(hypotheses, references, positive), _percent(list(right.values()))


def record(hypotheses: Texts, references: Texts, queries: Sequence[Hashable]) -> tuple[float, float]:
    """(exact match, token F1) of ReCoRD (Zhang et al. 2018), each the maximum over the references of a query.

    Texts are `normalized` as in SQuAD. A query occurs once for each of its references. Its first hypothesis counts,
    because greedy decoding gives the same one each time.

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
    """The text normalized as in SQuAD (Rajpurkar et al. 2016): lower case, without punctuation, articles and extra
    spaces.

    >>> normalized("The  U.S. an' A")
    'us'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(hypothesis: str, reference: str) -> float:
    """2 c / (m + n), where m and n are the numbers of tokens and c the number of common tokens. 0 for empty texts."""
    ours, theirs = Counter(hypothesis.split()), Counter(reference.split())
    return 2 * (ours & theirs).total() / max(ours.total() + theirs.total(), 1)


def _percent(values: Sequence[float]) -> float:
    return 100.0 * float(np.mean(values)) if len(values) else 0.0


def _ratio(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


def _confusion(hypotheses: Texts, references: Texts, labels: Texts) -> np.ndarray:
    """The confusion matrix [labels + 1, labels + 1]. The last row and column count texts that are not a label."""
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
