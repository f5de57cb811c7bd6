"""Replacement of unknown words in translations (Luong et al. 2015, section 4.2, after Jean et al. 2015).

Each unknown word of the output is replaced by the source word with the largest alignment weight. This needs a
vocabulary of whole words, so that tokens and words are the same. The paper also uses a dictionary of translations; here
names are copied unchanged.
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
    """Replaces each unknown word of the output by the source word with the largest weight in its row.

    Positions after the source words (the end-of-sentence symbol) are never chosen.

    >>> replaced(["il", "voit", "<unk>"], [7, 8, UNKNOWN], ["he", "sees", "Bafe"], np.eye(3))
    ['il', 'voit', 'Bafe']
    """
    among = weights[:, : len(source)]
    return [
        source[int(among[row].argmax())] if token == UNKNOWN else word
        for row, (word, token) in enumerate(zip(written, tokens, strict=True))
    ]


def measure(*, workdir: Path, seed: int, examples: int | None = None) -> dict[str, Any]:
    """Measures a trained run over whole words on the test split: "bleu_before_unk", "bleu_after_unk", and the share of
    unknown words in the output ("unknown_share")."""
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
