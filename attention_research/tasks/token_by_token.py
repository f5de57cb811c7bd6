"""The floor of a transduction: each source token is replaced by one token, always the same, or by none.

For spelling and sound that is a reader who knows one sound for every letter and no rule. Which token stands for which
is learned from the very references that are scored, so that this floor errs less than one learned from training text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

#: A source token that is replaced by nothing.
NOTHING = ""
_ROUNDS, _EXAMPLES = 4, 2_000
#: What leaving out a target token costs, where an aligned one gives its probability.
_LEFT_OUT = 0.5


def token_by_token(sources: Sequence[str], references: Sequence[str]) -> list[str]:
    """Each source with every token replaced by the one that it is aligned to most often.

    Alignments are monotone, one target token at most for each source token: first along the diagonal, then the best
    under how often tokens were aligned before (hard expectation maximisation, 4 rounds on at most 2,000 examples).
    """
    split = [source.split() for source in sources]
    pairs = [(source, reference.split()) for source, reference in zip(split, references, strict=True)]
    pairs = pairs[:: -(-len(pairs) // _EXAMPLES) or 1]
    counts = _counted(link for source, target in pairs for link in _diagonal(source, target))
    for _ in range(_ROUNDS):
        shares = {token: {other: n / found.total() for other, n in found.items()} for token, found in counts.items()}
        counts = _counted(link for source, target in pairs for link in _aligned(source, target, shares))
    # Of equally frequent ones the alphabetically first, so that the order of the examples says nothing.
    best = {token: min(found, key=lambda one: (-found[one], one)) for token, found in counts.items()}
    return [" ".join(filter(None, (best.get(token, NOTHING) for token in source))) for source in split]


def _counted(links: Iterator[tuple[str, str]]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for source, target in links:
        counts.setdefault(source, Counter())[target] += 1
    return counts


def _diagonal(source: Sequence[str], target: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each target token with the source token at its share of the length."""
    places = {row * len(source) // len(target): token for row, token in enumerate(target)} if source else {}
    return ((token, places.get(index, NOTHING)) for index, token in enumerate(source))


def _aligned(
    source: Sequence[str], target: Sequence[str], shares: dict[str, dict[str, float]]
) -> Iterator[tuple[str, str]]:
    """The monotone alignment with the largest sum of p(target token | source token) less what is left out."""
    # best[i][j]: the largest sum for the first i source and j target tokens; came[i][j]: how it came about.
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
