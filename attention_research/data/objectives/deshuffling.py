"""Deshuffling: the source is the tokens of a text in random order, the target is the text.

Liu et al. 2019, as Raffel et al. 2020 (T5) compare it in section 3.3.1; all orders are equally likely.
"""

import numpy as np

from attention_research.data.objectives.lengths import Lengths
from attention_research.tokens import EOS


class Deshuffling:
    """(shuffled tokens, text), both followed by the end of sentence."""

    def lengths(self, max_length: int) -> Lengths:
        """Leaves room for the end of sentence, as in T5's code (`objectives/all_permute.gin`)."""
        return Lengths(max_length - 1, max_length, max_length)

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        source, target = (np.append(side, EOS).astype(np.int32) for side in (generator.permutation(tokens), tokens))
        return source, target
