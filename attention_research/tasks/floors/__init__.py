"""Trivial baselines that a trained model must beat: each is fitted on the training split, without a seed.

`floors_of` gives all floors of an evaluation on its data: n-gram models where it reports a perplexity, and its own.
"""

from __future__ import annotations

from attention_research.data.protocol import Data, HasTargets, Writable
from attention_research.tasks.evaluation import Evaluation
from attention_research.tasks.evaluation_protocol import ScoresTexts
from attention_research.tasks.floors.kneser_ney import KneserNey
from attention_research.tasks.perplexity import PerplexityEvaluation, unigram_perplexity

#: The orders of the n-gram models.
_ORDERS = {"bigram": 2, "trigram": 3}


def floors_of(data: Data, evaluation: Evaluation) -> dict[str, dict[str, float]]:
    """Floor (its slug) -> metric, as the evaluation's scores call it -> value on the evaluation's split and examples.

    Reads the training text. `perplexity` is that of a target token, the end of the sentence included.
    """
    found: dict[str, dict[str, float]] = {}
    if isinstance(data, HasTargets) and _reports_perplexity(evaluation):
        found = ngram_floors(data, evaluation.split, evaluation.examples)
    for name, scores in evaluation.floors(data).items():
        found[name] = {**found.get(name, {}), **scores}
    return found


def ngram_floors(data: Writable, split: str, examples: int | None) -> dict[str, dict[str, float]]:
    """The perplexity of a unigram, a bigram and a trigram model of the targets, which see no source.

    A row of a language model's data that begins in the middle of a text has the history of a sentence's beginning.
    """
    text, scored = data.target_sentences("train"), data.target_sentences(split, examples)
    found = {"unigram": {"perplexity": unigram_perplexity(data, split, examples)}}
    for name, order in _ORDERS.items():
        found[name] = {"perplexity": KneserNey(text, data.tokenizer.size, order).perplexity(scored)}
    return found


def _reports_perplexity(evaluation: Evaluation) -> bool:
    """Evaluations that decode are given the perplexity beside their scores (`training.evaluation`)."""
    return isinstance(evaluation, ScoresTexts | PerplexityEvaluation)
