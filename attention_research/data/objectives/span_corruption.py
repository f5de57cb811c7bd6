"""Span corruption: spans of a text are removed from the source; the target is the removed spans.

Raffel et al. 2020 (T5), section 3.1.4 with spans as in section 3.3.4, from the released code (`random_spans_helper`,
`random_spans_noise_mask`, `noise_span_to_unique_sentinel`). With s0, s1, ... the sentinels and / the end of sentence:

    raw       thank you for inviting me to your party last week
    source    thank you s0 me to your party s1 /
    target    s0 for inviting s1 last week /

Of n raw tokens, m = round(n * noise_density) are removed, in round(m / mean_span_length) spans. Both numbers are at
least 1, at least one token is kept before each span, and all such choices of spans are equally likely. A text begins
with kept tokens and ends with a removed span. Sentinel i is the token vocabulary_size - 1 - i. The figure in the paper
ends a target with one more sentinel; the released code does not, so that 512 source tokens have 114 target tokens.
"""

from __future__ import annotations

import numpy as np

from attention_research.data.objectives.lengths import Lengths
from attention_research.signatures import Positive, PositiveFloat, Rate
from attention_research.tokens import EOS


class SpanCorruption:
    """Replaces `noise_density` of the tokens, in spans of `mean_span_length` tokens on average, by sentinels."""

    def __init__(self, *, noise_density: Rate = 0.15, mean_span_length: PositiveFloat = 3.0, vocabulary_size: Positive):
        self.noise_density, self.mean_span_length = noise_density, mean_span_length
        self.vocabulary_size = vocabulary_size

    def lengths(self, max_length: int) -> Lengths:
        """The largest number of raw tokens for which source and target have at most `max_length` tokens."""
        raw = 1
        while max(self._sides(raw + 1)) <= max_length:
            raw += 1
        return Lengths(raw, *self._sides(raw), sentinels=self.counts(raw)[1])

    def counts(self, raw: int) -> tuple[int, int]:
        """(number of removed tokens, number of spans) for a number of raw tokens."""
        noise = min(max(round(raw * self.noise_density), 1), raw - 1)
        spans = max(round(noise / self.mean_span_length), 1)
        return noise, min(spans, noise, raw - noise)

    def _sides(self, raw: int) -> tuple[int, int]:
        """The numbers of source and target tokens."""
        noise, spans = self.counts(raw)
        return raw - noise + spans + 1, noise + spans + 1

    def noise_mask(self, raw: int, generator: np.random.Generator) -> np.ndarray:
        """[raw] whether each token is removed."""
        noise, spans = self.counts(raw)
        kept_and_cut = [segments(raw - noise, spans, generator), segments(noise, spans, generator)]
        return np.repeat(np.arange(2 * spans) % 2 == 1, np.stack(kept_and_cut, axis=1).ravel())

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        noise = self.noise_mask(len(tokens), generator)
        return self._without(tokens, noise), self._without(tokens, ~noise)

    def _without(self, tokens: np.ndarray, gone: np.ndarray) -> np.ndarray:
        """The tokens with a sentinel instead of each run of removed ones, and the end of sentence."""
        first = gone & ~np.append(False, gone[:-1])
        marked = np.where(first, self.vocabulary_size - np.cumsum(first), tokens)
        return np.append(marked[first | ~gone], EOS).astype(np.int32)


def segments(items: int, parts: int, generator: np.random.Generator) -> np.ndarray:
    """The lengths [parts] of `parts` non-empty parts of `items` items; all partitions are equally likely."""
    cuts = np.sort(generator.permutation(items - 1)[: parts - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [items]]))
