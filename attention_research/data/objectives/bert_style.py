"""BERT-style objective: the source is a text with some tokens masked; the target is the text.

The objective of Devlin et al. 2018 as Raffel et al. 2020 (T5) compare it in section 3.3.1, with the distribution of the
released code (`iid_noise_mask`, `noise_token_to_random_token_or_sentinel`): each token is masked independently with
probability `noise_density`; 90 % of the masked tokens become the first sentinel, 10 % a random token.
"""

from __future__ import annotations

import numpy as np

from attention_research.data.objectives.lengths import Lengths
from attention_research.signatures import Positive, Rate
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

RANDOM = 0.1
#: A random token is never one of these.
RESERVED = (PAD, BOS, EOS, UNKNOWN)


class BertStyle:
    """(text with masked tokens, text), both with the end of sentence."""

    def __init__(self, *, noise_density: Rate = 0.15, vocabulary_size: Positive):
        self.noise_density, self.vocabulary_size = noise_density, vocabulary_size

    def lengths(self, max_length: int) -> Lengths:
        """Leaves room for the end of sentence."""
        return Lengths(max_length - 1, max_length, max_length, sentinels=1)

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        hidden = generator.random(len(tokens)) < self.noise_density
        others = generator.integers(len(RESERVED), self.vocabulary_size, len(tokens))
        instead = np.where(generator.random(len(tokens)) < RANDOM, others, self.vocabulary_size - 1)
        source = np.where(hidden, instead, tokens)
        source, target = (np.append(side, EOS).astype(np.int32) for side in (source, tokens))
        return source, target
