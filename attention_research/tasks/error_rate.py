"""Error rate: the fewest edits that make a hypothesis its reference, over the length of the references, in percent.

Tokens are what stands between spaces: phonemes of a word give the phoneme error rate, words of a sentence the word
error rate of speech recognition. Substitution, insertion and deletion cost 1 each (Levenshtein 1966). The rate is of
the whole corpus: all edits over the length of all references, so that it can be above 100.

A source may have several references (a word and its pronunciations, one example each). It is then scored once, against
the reference with the fewest edits, of equals the longest, as is usual in converting graphemes to phonemes. References
outside of the scored examples are not seen: score whole splits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attention_research.tasks.evaluation import Evaluation, Scores
from attention_research.tasks.token_by_token import token_by_token

SIGNATURE = "edits:levenshtein|tokens:spaces|several references:the nearest|each source:once"


def edits(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """The fewest substitutions, insertions and deletions that make one sequence the other.

    >>> edits("K AE T".split(), "K AH T S".split())
    2
    """
    above = list(range(len(reference) + 1))
    for row, token in enumerate(hypothesis, start=1):
        line = [row]
        for column, other in enumerate(reference, start=1):
            line.append(min(above[column] + 1, line[-1] + 1, above[column - 1] + (token != other)))
        above = line
    return above[-1]


def nearest(hypothesis: str, references: Sequence[str]) -> tuple[int, int]:
    """(edits, tokens of the reference) of the reference with the fewest edits, of equals the longest."""
    split = [reference.split() for reference in references]
    return min(((edits(hypothesis.split(), one), len(one)) for one in split), key=lambda found: (found[0], -found[1]))


def error_rates(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> tuple[float, float]:
    """(edits over tokens, share of sources whose hypothesis is none of its references), in percent.

    Of a source that stands several times the first hypothesis counts: a search writes the same one each time. Without
    any token in the references the rate is 0 where nothing was written, else infinite.
    """
    grouped: dict[str, tuple[str, list[str]]] = {}
    for hypothesis, reference, source in zip(hypotheses, references, sources, strict=True):
        grouped.setdefault(source, (hypothesis, []))[1].append(reference)
    found = [nearest(*one) for one in grouped.values()]
    wrong, tokens = sum(count for count, _ in found), sum(length for _, length in found)
    rate = 100.0 * wrong / tokens if tokens else (float("inf") if wrong else 0.0)
    return rate, 100.0 * sum(count > 0 for count, _ in found) / max(1, len(found))


class ErrorRateEvaluation(Evaluation):
    """Transduction of one sequence into another, scored by edits (see the module)."""

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """`error_rate` with its signature, `word_error_rate` (of whole sequences), and `token_by_token_error_rate`.

        The last is the floor: each source token replaced by the one that stands for it most often in the references.
        """
        rate, whole = error_rates(hypotheses, references, sources)
        floor, _ = error_rates(token_by_token(sources, references), references, sources)
        return {
            "error_rate": rate,
            "word_error_rate": whole,
            "error_rate_signature": SIGNATURE,
            "token_by_token_error_rate": floor,
        }

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """As `Evaluation.floors`: token by token, and what the nearest training source has."""
        from attention_research.tasks.floors.written import transduction_floors

        return transduction_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        rates = f"error rate {scores['error_rate']:.2f} %, of whole sequences {scores['word_error_rate']:.2f} %"
        floor = f"token by token {scores['token_by_token_error_rate']:.2f} %"
        return f"{rates} ({scores['error_rate_signature']}) · {floor}"

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]
    ) -> dict[str, Any]:
        """What both rates are sums of, source by source (`tasks.sentence_statistics`)."""
        from attention_research.tasks.sentence_statistics import of_error_rate

        return of_error_rate(hypotheses, references, sources)
