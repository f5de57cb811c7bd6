"""Masked language modelling, Devlin et al. 2019 (arXiv 1810.04805), section 3.1: predict the masked tokens.

Each token is selected independently with probability `noise_density`. Of the selected tokens, 80 % become the first
sentinel, which is used as [MASK], 10 % become a random token, and 10 % stay. The target has the length of the source:
the selected tokens at their positions, and padding, which the loss ignores, at all others. The objective is for
encoder-only models.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Integer

from attention_research.data.objectives.lengths import Lengths
from attention_research.data.tokens import TokenArray
from attention_research.signatures import Positive, Rate
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

MASKED, RANDOM = 0.8, 0.1
#: A random token is never one of these.
RESERVED = (PAD, BOS, EOS, UNKNOWN)


@dataclasses.dataclass(frozen=True)
class MaskedText:
    """Texts with masked tokens, as a model reads them: `target` has the original token at each selected place, and
    padding at all others. `mask` is the token that replaces most selected tokens."""

    source: TokenArray
    target: Integer[np.ndarray, "tokens"]
    mask: int

    @property
    def chosen(self) -> Bool[np.ndarray, "tokens"]:
        """Whether each token is selected."""
        return self.target != PAD

    @property
    def original(self) -> TokenArray:
        """The texts without masks."""
        return TokenArray(np.where(self.chosen, self.target, self.source.flat), self.source.offsets)


class MaskedTokens:
    """(text with masked tokens, the selected tokens at their positions); the end of sentence is never selected.

    `begins` adds the beginning of sentence as the first token, like [CLS] of BERT.
    """

    def __init__(self, *, noise_density: Rate = 0.15, begins: bool = False, vocabulary_size: Positive):
        self.noise_density, self.begins, self.vocabulary_size = noise_density, begins, vocabulary_size

    @property
    def mask(self) -> int:
        """The first sentinel."""
        return self.vocabulary_size - 1

    def lengths(self, max_length: int) -> Lengths:
        """Leaves room for the end of sentence, and for the beginning of sentence if there is one."""
        return Lengths(max_length - 1 - self.begins, max_length, max_length, sentinels=1)

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        chosen = generator.random(len(tokens)) < self.noise_density
        others = generator.integers(len(RESERVED), self.vocabulary_size, len(tokens))
        way = generator.random(len(tokens))
        instead = np.where(way < MASKED, self.mask, np.where(way < MASKED + RANDOM, others, tokens))
        source, target = np.where(chosen, instead, tokens), np.where(chosen, tokens, PAD)
        first, nothing = ([BOS], [PAD]) if self.begins else ([], [])
        both = (first, source, [EOS]), (nothing, target, [PAD])
        source, target = (np.concatenate(one).astype(np.int32) for one in both)
        return source, target
