"""Prefix language modelling: the source is the beginning of a text, the target is the rest.

Liu et al. 2018, as Raffel et al. 2020 (T5) compare it in section 3.3.1: the text is split at a uniformly random
position, with at least one token on either side. Both sides end with the end of sentence.
"""

import numpy as np

from attention_research.data.objectives.lengths import Lengths
from attention_research.tokens import EOS


class PrefixLanguageModel:
    """(beginning, rest) of a text split at a random position; their lengths vary, and their sum is fixed."""

    def lengths(self, max_length: int) -> Lengths:
        """Leaves room for the end of sentence, as in T5's code (`split_tokens_to_inputs_length`)."""
        return Lengths(max_length - 1, max_length - 1, max_length - 1)

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        cut = generator.integers(1, len(tokens))
        source, target = (np.append(side, EOS).astype(np.int32) for side in (tokens[:cut], tokens[cut:]))
        return source, target
