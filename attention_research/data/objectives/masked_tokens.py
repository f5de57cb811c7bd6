"""Masked language modelling, Devlin et al. 2019 (arXiv 1810.04805), section 3.1: what stands at hidden places.

Each token is chosen with probability `noise_density`, whatever the others are; of the chosen ones 80 % become the first
sentinel, which stands for [MASK], 10 % a random token, and 10 % stay. The target is as long as the source: the chosen
tokens at their places and padding, which no loss counts, everywhere else. It is for a model that is an encoder alone.
"""

from __future__ import annotations

import numpy as np

from attention_research.data.objectives.lengths import Lengths
from attention_research.registry import Positive, Rate
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

MASKED, RANDOM = 0.8, 0.1
#: Random tokens are none of these.
RESERVED = (PAD, BOS, EOS, UNKNOWN)


class MaskedTokens:
    """(text with hidden tokens, what was hidden at its place); the end of sentence is never chosen.

    `begins` says whether the beginning of sentence stands first, as BERT's [CLS] does.
    """

    def __init__(self, *, noise_density: Rate = 0.15, begins: bool = False, vocabulary_size: Positive):
        self.noise_density, self.begins, self.vocabulary_size = noise_density, begins, vocabulary_size

    def lengths(self, max_length: int) -> Lengths:
        """Room for the end of sentence, and for its beginning, is left."""
        return Lengths(max_length - 1 - self.begins, max_length, max_length, sentinels=1)

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        chosen = generator.random(len(tokens)) < self.noise_density
        others = generator.integers(len(RESERVED), self.vocabulary_size, len(tokens))
        way = generator.random(len(tokens))
        instead = np.where(way < MASKED, self.vocabulary_size - 1, np.where(way < MASKED + RANDOM, others, tokens))
        source, target = np.where(chosen, instead, tokens), np.where(chosen, tokens, PAD)
        first, nothing = ([BOS], [PAD]) if self.begins else ([], [])
        both = (first, source, [EOS]), (nothing, target, [PAD])
        source, target = (np.concatenate(one).astype(np.int32) for one in both)
        return source, target
