"""BLEU as sacreBLEU computes it (Post 2018), with the signature that says how, and the floor of copying the source."""

from __future__ import annotations

from collections.abc import Sequence

import sacrebleu

from attention_research.registry import Positive


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """(score, sacreBLEU's signature); one reference a sentence, detokenised text."""
    metric = sacrebleu.BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return score, str(metric.get_signature())


class BleuEvaluation:
    """Translates a split and scores it. `examples` bounds how many of its first sentences (None: all of them)."""

    def __init__(self, *, split: str = "test", batch_size: Positive = 64, examples: Positive | None = None):
        self.split, self.batch_size, self.examples = split, batch_size, examples
