"""Floors: trivial baselines that a trained model must beat. They are fitted on the training split, without a seed.

`floors_of` returns all floors of an evaluation on its data: n-gram models if the evaluation reports a perplexity, and
the floors of the evaluation itself.
"""

from __future__ import annotations

from attention_research.data.objectives.masked_tokens import MaskedText
from attention_research.data.protocol import Data, HasTargets, MasksTokens, Writable
from attention_research.tasks.evaluation import Evaluation
from attention_research.tasks.evaluation_protocol import ScoresTexts
from attention_research.tasks.floors.cloze import cloze_perplexity
from attention_research.tasks.floors.kneser_ney import KneserNey
from attention_research.tasks.perplexity import PerplexityEvaluation, unigram_perplexity

#: The orders of the n-gram models.
_ORDERS = {"bigram": 2, "trigram": 3}


def floors_of(data: Data, evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """Slug of a floor -> name of a metric in the scores -> value on the split and examples of the evaluation.

    Reads the training text. `perplexity` is per target token, including the end of the sentence.
    """
    found: dict[str, dict[str, float]] = {}
    if isinstance(data, HasTargets) and _reports_perplexity(evaluation):
        found = ngram_floors(data, evaluation.split, evaluation.examples)
    for name, scores in evaluation.floors(data).items():
        found[name] = {**found.get(name, {}), **scores}
    return found


def ngram_floors(data: Writable, split: str, examples: int | None) -> dict[str, dict[str, float]]:
    """The perplexity of a unigram, a bigram and a trigram model of the targets, which do not use the source.

    A row of language-model data that begins in the middle of a text has the history of the start of a sentence. Of
    masked language models, the bigram and the trigram model read the text on both sides (`cloze`).
    """
    found = {"unigram": {"perplexity": unigram_perplexity(data, split, examples)}}
    learned, scored = (_masked(data, *which) for which in (("train", None), (split, examples)))
    text = data.target_sentences("train") if learned is None else learned.original
    for name, order in _ORDERS.items():
        model = KneserNey(text, data.tokenizer.size, order)
        if scored is None:
            found[name] = {"perplexity": model.perplexity(data.target_sentences(split, examples))}
        else:
            found[name] = {"perplexity": cloze_perplexity(model, scored)}
    return found


def _masked(data: Writable, split: str, examples: int | None) -> MaskedText | None:
    return data.masked_text(split, examples) if isinstance(data, MasksTokens) else None


def _reports_perplexity(evaluation: Evaluation) -> bool:
    """Whether the evaluation reports a perplexity. `training.evaluation` adds it to every evaluation that decodes."""
    return isinstance(evaluation, ScoresTexts | PerplexityEvaluation)
