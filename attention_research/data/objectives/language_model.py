"""Language modelling: the target is the text, the source is empty.

Raffel et al. 2020 (T5), section 3.2.3, with the lengths of the released code (`objectives/lm.gin`). An encoder reads
only the end of sentence.

As in T5, each row of `max_length` tokens ends with the end of sentence. A causal model can learn the position at which
it comes, and then predicts it at all later positions. To test a model on rows that are longer than its training rows,
train it on `data.running_text`, whose rows have no end.
"""

import numpy as np

from attention_research.data.objectives.lengths import Lengths
from attention_research.tokens import EOS


class LanguageModel:
    """(end of sentence only, text); the objective is deterministic."""

    def lengths(self, max_length: int) -> Lengths:
        """Leaves room for the end of sentence."""
        return Lengths(max_length - 1, 1, max_length)

    def __call__(self, tokens: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(source, target) of raw tokens."""
        return np.array([EOS], np.int32), np.append(tokens, EOS).astype(np.int32)
