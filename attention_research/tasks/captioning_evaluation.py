"""Captions, scored as the COCO caption evaluation does (Chen et al. 2015, arXiv 1504.00325): BLEU, ROUGE-L, CIDEr.

METEOR and SPICE need Java programs and are not printed, nor anything else under their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attention_research.tasks.caption_bleu import References, Words, caption_bleu
from attention_research.tasks.cider import cider, cider_d
from attention_research.tasks.evaluation import Scores, TextEvaluation
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric
from attention_research.tasks.rouge import caption_rouge

SIGNATURE = "coco-caption|tok:lower-case words, clitics apart, without punctuation|case:lc|smooth:none|df:split"
_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?:-\w+)*")


def caption_words(text: str) -> list[str]:
    """The words that are compared: in lower case, punctuation dropped, "n't" and "'s" apart, hyphens kept.

    COCO's tokenizer (Stanford's PTBTokenizer, a Java program) does so too, and keeps more: symbols, the points of
    numbers and abbreviations, slashes, and brackets, which it writes as words.

    >>> caption_words("A man's T-shirt, isn't it?")
    ['a', 'man', "'s", 't-shirt', 'is', "n't", 'it']
    """
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def caption_scores(hypotheses: Sequence[Words], references: References) -> dict[str, float]:
    """`bleu_1` to `bleu_4`, `rouge_l`, `cider_d` and `cider`, in percent as papers print them: each times 100."""
    bleu = {f"bleu_{n}": score for n, score in enumerate(caption_bleu(hypotheses, references), start=1)}
    found = {"rouge_l": caption_rouge, "cider_d": cider_d, "cider": cider}
    found_scores = {**bleu, **{name: score(hypotheses, references) for name, score in found.items()}}
    return {name: 100.0 * score for name, score in found_scores.items()}


class CaptioningEvaluation(TextEvaluation):
    """Captions of pictures, each against all captions that its picture has."""

    metrics = (
        PERPLEXITY,
        Metric(
            "bleu_4",
            "BLEU-4",
            "higher",
            floors=(Floor("frequent", "most frequent target"), Floor("other", "caption of another picture")),
        ),
        Metric("bleu_1", "BLEU-1", "higher"),
        Metric("bleu_2", "BLEU-2", "higher"),
        Metric("bleu_3", "BLEU-3", "higher"),
        Metric("rouge_l", "ROUGE-L", "higher"),
        Metric("cider_d", "CIDEr-D", "higher"),
        Metric("cider", "CIDEr", "higher"),
    )

    def score(
        self, hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], sources: Sequence[Any]
    ) -> Scores:
        """The scores of `caption_scores` with their `signature`, and `other_...`: those of writing, for every picture,
        the first reference of the next one, which is a real caption written without having looked."""
        texts = [[given] if isinstance(given, str) else list(given) for given in references]
        wanted = [[caption_words(text) for text in given] for given in texts]
        floor = [wanted[(place + 1) % len(wanted)][0] for place in range(len(wanted))]
        scores = caption_scores([caption_words(text) for text in hypotheses], wanted)
        others = {f"other_{name}": score for name, score in caption_scores(floor, wanted).items()}
        return {**scores, "signature": SIGNATURE, **others}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """As `Evaluation.floors`: the most frequent caption, and that of another picture."""
        from attention_research.tasks.floors.written import caption_floors

        return caption_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        names = {f"bleu_{n}": f"BLEU-{n}" for n in range(1, 5)} | {"rouge_l": "ROUGE-L", "cider_d": "CIDEr-D"}
        each = (f"{told} {scores[name]:.2f} ({scores[f'other_{name}']:.2f})" for name, told in names.items())
        return f"{' · '.join(each)} · in brackets: the caption of another picture · {scores['signature']}"
