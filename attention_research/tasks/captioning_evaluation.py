"""Scores captions as the COCO caption evaluation does (Chen et al. 2015, arXiv 1504.00325): BLEU, ROUGE-L, CIDEr.

METEOR and SPICE are not available, because they need Java programs.
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
    """The words of a caption, in lower case and without punctuation. "n't" and "'s" are split off; hyphens are kept.

    The tokenizer of COCO (Stanford's PTBTokenizer, a Java program) does the same, but it also keeps symbols, slashes,
    the points of numbers and abbreviations, and brackets, which it writes as words.

    >>> caption_words("A man's T-shirt, isn't it?")
    ['a', 'man', "'s", 't-shirt', 'is', "n't", 'it']
    """
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def caption_scores(hypotheses: Sequence[Words], references: References) -> dict[str, float]:
    """`bleu_1` to `bleu_4`, `rouge_l`, `cider_d` and `cider`, each multiplied by 100 as in papers."""
    bleu = {f"bleu_{n}": score for n, score in enumerate(caption_bleu(hypotheses, references), start=1)}
    found = {"rouge_l": caption_rouge, "cider_d": cider_d, "cider": cider}
    found_scores = {**bleu, **{name: score(hypotheses, references) for name, score in found.items()}}
    return {name: 100.0 * score for name, score in found_scores.items()}


class CaptioningEvaluation(TextEvaluation):
    """Scores the captions of images, each against all reference captions of its image."""

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
        Metric("cider_d", "CIDEr-D", "higher", bounds=(0.0, 1000.0)),
        Metric("cider", "CIDEr", "higher", bounds=(0.0, 1000.0)),
    )

    def score(
        self, hypotheses: Sequence[str], references: Sequence[str | Sequence[str]], sources: Sequence[Any]
    ) -> Scores:
        """The scores of `caption_scores` with their `signature`, and a baseline `other_...` for each.

        The baseline writes the first reference of the next image for every image: a real caption that is independent of
        the image.
        """
        texts = [[given] if isinstance(given, str) else list(given) for given in references]
        wanted = [[caption_words(text) for text in given] for given in texts]
        floor = [wanted[(place + 1) % len(wanted)][0] for place in range(len(wanted))]
        scores = caption_scores([caption_words(text) for text in hypotheses], wanted)
        others = {f"other_{name}": score for name, score in caption_scores(floor, wanted).items()}
        return {**scores, "signature": SIGNATURE, **others}

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors: the most frequent caption, and a caption of another image."""
        from attention_research.tasks.floors.written import caption_floors

        return caption_floors(self, data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        names = {f"bleu_{n}": f"BLEU-{n}" for n in range(1, 5)} | {"rouge_l": "ROUGE-L", "cider_d": "CIDEr-D"}
        each = (f"{told} {scores[name]:.2f} ({scores[f'other_{name}']:.2f})" for name, told in names.items())
        return f"{' · '.join(each)} · in brackets: the caption of another picture · {scores['signature']}"
