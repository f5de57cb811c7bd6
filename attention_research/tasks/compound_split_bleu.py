"""Tokenised BLEU with compounds split at hyphens, as reported by Vaswani et al. 2017. sacreBLEU is reported as well.

The recipe is that of `get_ende_bleu.sh` in tensor2tensor (also used by Luong et al. 2015 and GNMT): replace Unicode
punctuation, tokenise with Moses, split "rich-text" into "rich ##AT##-##AT## text", and compute multi-bleu, which is
BLEU without smoothing. The result differs from sacreBLEU and is comparable only with other results of this recipe. Here
both hypotheses and references are detokenised text, and all steps are applied to both. The script uses references that
were downloaded in tokenised form.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import sacrebleu

from attention_research.tasks.evaluation import BleuEvaluation, Scores
from attention_research.tasks.evaluation_protocol import Metric

_COMPOUND = re.compile(r"(\S)-(\S)")


def split_compounds(text: str) -> str:
    """Makes each hyphen between two non-space characters a separate token. A character belongs to one hyphen at most.

    >>> split_compounds("a rich-text format - 9-5")
    'a rich ##AT##-##AT## text format - 9 ##AT##-##AT## 5'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)


@functools.cache
def _moses(language: str) -> Callable[[str], str]:
    """A function that tokenizes a text by the Moses tokenizer (Koehn et al. 2007) and joins the tokens by spaces."""
    import sacremoses

    punctuation, tokenizer = sacremoses.MosesPunctNormalizer(language), sacremoses.MosesTokenizer(language)
    return lambda text: tokenizer.tokenize(punctuation.replace_unicode_punct(text), return_str=True)


def compound_split_bleu(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "de"
) -> tuple[float, str]:
    """(score, signature) of detokenised texts in `language`, with one reference per sentence."""
    import sacremoses

    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    prepared = [[split_compounds(_moses(language)(text)) for text in side] for side in (hypotheses, references)]
    score = metric.corpus_score(prepared[0], [prepared[1]]).score
    tokens = f"tok:moses-{language}-{sacremoses.__version__}+compound-split"
    return score, str(metric.get_signature()).replace("tok:none", tokens)


class CompoundSplitBleuEvaluation(BleuEvaluation):
    """sacreBLEU as `bleu`, and `compound_split_bleu`. `language` is the target language, for the tokenizer."""

    metrics = (*BleuEvaluation.metrics, Metric("compound_split_bleu", "compound-split BLEU", "higher"))

    def __init__(self, *, language: Literal["de", "en", "es", "fr"] = "de", **inherited: Any):
        super().__init__(near=None, **inherited)
        self.language = language

    def score(self, hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]) -> Scores:
        """The scores of `BleuEvaluation`, `compound_split_bleu` and `compound_split_signature`."""
        score, signature = compound_split_bleu(hypotheses, references, self.language)
        plain = super().score(hypotheses, references, sources)
        return {**plain, "compound_split_bleu": score, "compound_split_signature": signature}

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line, sacreBLEU first."""
        split = f"{scores['compound_split_bleu']:.2f} ({scores['compound_split_signature']})"
        return f"{super().summary(scores)} · compound-split BLEU {split}"
