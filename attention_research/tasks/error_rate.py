"""The error rate: the edit distance between hypotheses and references over the length of the references, in percent.

Tokens are separated by spaces. If they are the phonemes of a word, this is the phoneme error rate; if they are the
words of a sentence, it is the word error rate of speech recognition. Substitutions, insertions and deletions cost 1
each (Levenshtein 1966). The rate of a corpus is the sum of all edits divided by the sum of all lengths. It can exceed
100.

A source may have several references, such as the pronunciations of a word, with one example for each. It is then scored
once, against the reference with the fewest edits (of equal ones the longest), as is usual in grapheme-to-phoneme
conversion. References outside of the scored examples are ignored, so score whole splits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attention_research.tasks.evaluation import Scores, TextEvaluation
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric

SIGNATURE = "edits:levenshtein|tokens:spaces|several references:the nearest|each source:once"

#: The replacement for a source token that is deleted.
NOTHING = ""
_ROUNDS, _EXAMPLES = 4, 2_000
#: The cost of leaving out a target token. An aligned token adds its probability.
_LEFT_OUT = 0.5


def edits(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """The edit distance: the minimum number of substitutions, insertions and deletions.

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
    """(edits, number of tokens) of the reference with the fewest edits. Of equal ones, the longest is taken."""
    split = [reference.split() for reference in references]
    return min(((edits(hypothesis.split(), one), len(one)) for one in split), key=lambda found: (found[0], -found[1]))


def error_rates(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> tuple[float, float]:
    """(edits over tokens, fraction of sources whose hypothesis equals none of its references), in percent.

    If a source occurs several times, its first hypothesis counts, because a search gives the same result each time. If
    all references are empty, the rate is 0 for empty hypotheses and infinite otherwise.
    """
    grouped: dict[str, tuple[str, list[str]]] = {}
    for hypothesis, reference, source in zip(hypotheses, references, sources, strict=True):
        grouped.setdefault(source, (hypothesis, []))[1].append(reference)
    found = [nearest(*one) for one in grouped.values()]
    wrong, tokens = sum(count for count, _ in found), sum(length for _, length in found)
    rate = 100.0 * wrong / tokens if tokens else (float("inf") if wrong else 0.0)
    return rate, 100.0 * sum(count > 0 for count, _ in found) / max(1, len(found))


def line_error_rate(hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> float:
    """The percentage of examples whose hypothesis equals no reference of their source.

    A source with three references counts three times, as in the scores of g2p-seq2seq.

    >>> line_error_rate(["A", "A", "C"], ["A", "B", "D"], ["a", "a", "c"])  # two lines of a right word, a wrong one
    33.3...
    """
    known: dict[str, set[str]] = {}
    for reference, source in zip(references, sources, strict=True):
        known.setdefault(source, set()).add(reference)
    wrong = sum(hypothesis not in known[source] for hypothesis, source in zip(hypotheses, sources, strict=True))
    return 100.0 * wrong / max(1, len(sources))


class ErrorRateEvaluation(TextEvaluation):
    """Scores the transduction of one sequence into another by edit distance (see the module)."""

    metrics = (
        PERPLEXITY,
        Metric(
            "error_rate",
            "error rate, %",
            "lower",
            floors=(
                Floor(
                    "token_by_token",
                    "token by token",
                    "token_by_token_error_rate",
                    "replacing token by token",
                    "token by token's",
                ),
                Floor("nearest_source", "nearest source"),
                Floor("replaced_ending", "replaced ending"),
            ),
        ),
        Metric("word_error_rate", "word error rate, %", "lower"),
    )

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """`error_rate` with its signature, `word_error_rate` (of whole sequences), `line_error_rate` (of examples), and
        `token_by_token_error_rate`.

        The last one is the score of a floor that replaces each source token by its most frequent aligned target token.
        """
        rate, whole = error_rates(hypotheses, references, sources)
        floor, _ = error_rates(token_by_token(sources, references), references, sources)
        return {
            "error_rate": rate,
            "word_error_rate": whole,
            "line_error_rate": line_error_rate(hypotheses, references, sources),
            "error_rate_signature": SIGNATURE,
            "token_by_token_error_rate": floor,
        }

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors: replacing token by token, the target of the nearest training source, and, for inflection, the
        ending that training replaces it by."""
        from attention_research.tasks.floors.written import transduction_floors

        return transduction_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        rates = f"error rate {scores['error_rate']:.2f} %, of whole sequences {scores['word_error_rate']:.2f} %"
        floor = f"token by token {scores['token_by_token_error_rate']:.2f} %"
        return f"{rates} ({scores['error_rate_signature']}) · {floor}"

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]
    ) -> dict[str, Any]:
        """The statistics of each source, whose sums give both rates (`tasks.sentence_statistics`)."""
        from attention_research.tasks.sentence_statistics import of_error_rate

        return of_error_rate(hypotheses, references, sources)


def token_by_token(sources: Sequence[str], references: Sequence[str]) -> list[str]:
    """A floor for transduction: replaces every source token by the target token that it is aligned to most often.

    For grapheme-to-phoneme conversion, this corresponds to one sound for every letter, without rules. The replacements
    are learned from the scored references themselves, so this floor has fewer errors than one learned from training
    text.

    Alignments are monotone, with at most one target token for each source token. They start along the diagonal and are
    refined by hard expectation maximisation (4 rounds on at most 2,000 examples).
    """
    split = [source.split() for source in sources]
    pairs = [(source, reference.split()) for source, reference in zip(split, references, strict=True)]
    pairs = pairs[:: -(-len(pairs) // _EXAMPLES) or 1]
    counts = _counted(link for source, target in pairs for link in _diagonal(source, target))
    for _ in range(_ROUNDS):
        shares = {token: {other: n / found.total() for other, n in found.items()} for token, found in counts.items()}
        counts = _counted(link for source, target in pairs for link in _aligned(source, target, shares))
    # Ties are broken alphabetically, so that the result does not depend on the order of the examples.
    best = {token: min(found, key=lambda one: (-found[one], one)) for token, found in counts.items()}
    return [" ".join(filter(None, (best.get(token, NOTHING) for token in source))) for source in split]


def _counted(links: Iterator[tuple[str, str]]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for source, target in links:
        counts.setdefault(source, Counter())[target] += 1
    return counts


def _diagonal(source: Sequence[str], target: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The diagonal alignment: each target token is linked to the source token at the same relative position."""
    places = {row * len(source) // len(target): token for row, token in enumerate(target)} if source else {}
    return ((token, places.get(index, NOTHING)) for index, token in enumerate(source))


def _aligned(
    source: Sequence[str], target: Sequence[str], shares: dict[str, dict[str, float]]
) -> Iterator[tuple[str, str]]:
    """The monotone alignment with the largest sum of p(target token | source token), minus the costs of tokens that are
    left out."""
    # best[i][j] is the largest sum for the first i source and j target tokens; came[i][j] is its last move.
    best = [[-_LEFT_OUT * column for column in range(len(target) + 1)]]
    came: list[list[str]] = []
    for token in source:
        above = best[-1]
        line: list[float] = []
        moves: list[str] = []
        share = shares[token].get
        silent = share(NOTHING, 0.0)
        for column in range(len(target) + 1):
            options = [(above[column] + silent, "silent")]
            if column:
                options.append((above[column - 1] + share(target[column - 1], 0.0), "said"))
                options.append((line[-1] - _LEFT_OUT, "left out"))
            value, move = max(options, key=lambda option: option[0])
            line.append(value)
            moves.append(move)
        best.append(line)
        came.append(moves)
    row, column, links = len(source), len(target), []
    while row:
        move = came[row - 1][column]
        if move == "left out":
            column -= 1
            continue
        said = move == "said"
        links.append((source[row - 1], target[column - 1] if said else NOTHING))
        row, column = row - 1, column - said
    return iter(links)
