"""Unknown words of a translation replaced by the source word that was looked at, Luong et al. 2015, section 4.2
(after Jean et al. 2015): each unknown word that is written becomes the source word with the greatest alignment weight.

Needs a vocabulary of whole words, so that tokens and words are the same; a dictionary of translations, which the paper
also asks, is not used: names stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from attention_research.analysis.by_length import sample
from attention_research.analysis.teacher_forced import weights_of
from attention_research.tasks.evaluation import corpus_bleu
from attention_research.tokens import EOS, UNKNOWN
from attention_research.training.evaluation import Trained


def replaced(
    written: Sequence[str], tokens: Sequence[int], source: Sequence[str], weights: Float[np.ndarray, "T S"]
) -> list[str]:
    """The written words with each unknown one replaced by the source word of its row's greatest weight; what stands
    behind the source's words (the end of the sentence) is never taken.

    >>> replaced(["il", "voit", "<unk>"], [7, 8, UNKNOWN], ["he", "sees", "Bafe"], np.eye(3))
    ['il', 'voit', 'Bafe']
    """
    among = weights[:, : len(source)]
    return [
        source[int(among[row].argmax())] if token == UNKNOWN else word
        for row, (word, token) in enumerate(zip(written, tokens, strict=True))
    ]


def measure(*, workdir: Path, seed: int, examples: int | None = None) -> dict[str, Any]:
    """Of a trained run over whole words, on the test split: "bleu_before_unk" and "bleu_after_unk", and which share of
    the written words was unknown ("unknown_share")."""
    del seed
    trained = Trained(workdir)
    sources, references = trained.data.text("test")
    chosen = sample(len(sources), examples)
    sources, references = [sources[i] for i in chosen], [references[i] for i in chosen]
    read, written = zip(*trained.hypotheses(sources), strict=True)
    weights = weights_of(trained, read, written)
    before, after, unknown, total = [], [], 0, 0
    for source, tokens, looked in zip(sources, written, weights, strict=True):
        body = [token for token in tokens if token != EOS]
        words = [trained.data.tokenizer.decode([[token]])[0] for token in body]
        before.append(" ".join(words))
        after.append(" ".join(replaced(words, body, source.split(), looked)))
        unknown, total = unknown + body.count(UNKNOWN), total + len(body)
    return {
        "bleu_before_unk": corpus_bleu(before, references)[0],
        "bleu_after_unk": corpus_bleu(after, references)[0],
        "unknown_share": unknown / max(1, total),
    }
