"""A floor of inflection: the longest ending of a source that training knows, with its most frequent replacement.

This is the rule of the baselines of the SIGMORPHON shared tasks (Cotterell et al. 2017) without their prefixes: a pair
such as "p a r l e r 3PL", "p a r l e n t" gives "r 3PL" -> "n t", "e r 3PL" -> "e n t", and so on up to the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile


def begin_alike(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether most targets begin with the first token of their source and are not copies of it."""
    pairs = [(source.split(), target.split()) for source, target in zip(sources, targets, strict=True)]
    return 2 * sum(one[:1] == other[:1] and one != other for one, other in pairs) > len(pairs)


def replaced_endings(sources: Sequence[str], targets: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The `asked` sources with their ending replaced, by rules of the pairs of `sources` and `targets`.

    A source without a known ending stays as it is. Ties are broken alphabetically.
    """
    rules: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
    for source, target in zip(sources, targets, strict=True):
        for ending, replacement in _rules(source.split(), target.split()):
            rules.setdefault(ending, Counter())[replacement] += 1
    best = {ending: min(found, key=lambda one: (-found[one], one)) for ending, found in rules.items()}
    return [_replaced(text.split(), best) for text in asked]


def _rules(source: Sequence[str], target: Sequence[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The endings of a source that contain everything after the common beginning, each with its replacement."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(source, target, strict=False)))
    return ((tuple(source[start:]), tuple(target[start:])) for start in range(common + 1))


def _replaced(tokens: Sequence[str], best: dict[tuple[str, ...], tuple[str, ...]]) -> str:
    known = (start for start in range(len(tokens) + 1) if tuple(tokens[start:]) in best)
    start = next(known, None)
    return " ".join(tokens if start is None else (*tokens[:start], *best[tuple(tokens[start:])]))
