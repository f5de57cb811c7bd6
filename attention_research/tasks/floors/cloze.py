"""The perplexity of masked tokens by an n-gram model that reads the text on both sides.

For a masked token at position t of a text x, and each token w of the vocabulary,

    p(w) = q(w) / sum_v q(v),    q(w) = prod_k p(x_{t+k} | the n - 1 tokens before it),    k = 0 ... n - 1,

where x_t is w in all factors. Positions after the end of the text have no factor, and neither have masked ones. The
model reads what a masked language model reads: a masked token in a history is an unseen history, so that the next lower
order is used. Without other masked tokens, this is the exact conditional probability under the n-gram model.

Each masked token needs the probabilities of the whole vocabulary, so a long text is represented by `MOST` masked tokens
of a fixed permutation.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Integer

from attention_research.data.objectives.masked_tokens import MaskedText
from attention_research.tasks.floors.kneser_ney import KneserNey

#: The largest number of masked tokens that are scored. With this many, the standard error of a mean log probability is
#: about 0.02.
MOST = 10_000
_SEED = 0
#: The number of masked tokens for which the probabilities of the whole vocabulary are in memory.
_BLOCK = 128


def cloze_perplexity(model: KneserNey, text: MaskedText) -> float:
    """exp of the mean -log p(token) over at most `MOST` masked tokens of a text."""
    places = np.random.default_rng(_SEED).permutation(np.flatnonzero(text.chosen))[:MOST]
    history = model.history(text.source)
    total = 0.0
    for start in range(0, len(places), _BLOCK):
        some = places[start : start + _BLOCK]
        total += float(_log_p(model, history, text, some)[np.arange(len(some)), text.target[some]].sum())
    return float(np.exp(-total / max(1, len(places))))


def _log_p(
    model: KneserNey, history: Integer[np.ndarray, "tokens before"], text: MaskedText, places: Integer[np.ndarray, "n"]
) -> Float[np.ndarray, "n v"]:
    """log p(w) for each place and each token w of the vocabulary."""
    read, tokens = np.asarray(text.source.flat, np.int64), np.arange(model.vocabulary)
    ends = np.repeat(text.source.offsets[1:], text.source.lengths)[places]
    found = np.zeros((len(places), model.vocabulary))
    for after in range(model.order):
        inside = np.flatnonzero(places + after < ends)
        if after:
            inside = inside[read[places[inside] + after] != text.mask]
        at = places[inside] + after
        before = np.repeat(history[at], model.vocabulary, axis=0)
        if after:
            before[:, after - 1] = np.tile(tokens, len(at))
        expected = np.repeat(read[at], model.vocabulary) if after else np.tile(tokens, len(at))
        found[inside] += np.log(model.probabilities(before, expected)).reshape(len(at), -1)
    return found - np.logaddexp.reduce(found, axis=1, keepdims=True)
