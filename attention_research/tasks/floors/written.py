"""Floors of evaluations that decode: texts that are generated without a model and scored like those of a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from attention_research.data.text_to_text import without_prefix
from attention_research.tasks.error_rate import token_by_token
from attention_research.tasks.evaluation import Evaluation
from attention_research.tasks.floors.endings import begin_alike, replaced_endings
from attention_research.tasks.floors.labels import Floors, evaluated_ids, predicted
from attention_research.tasks.floors.memory import by_distance, nearest
from attention_research.tasks.naming import first_words, naming_scores

#: The floor "memory_else_copy" copies the source if the similarity is below this value.
COPIED_BELOW = 0.5
#: The largest number of distinct targets that are treated as classes.
_MOST_CLASSES = 100
_LABEL_METRICS = {"accuracy", "f1", "f1_macro", "matthews"}
_END = re.compile(r"[.!?][\"']?(?=\s+[\"'A-Z])")


class _Texts:
    """The sources and references that an evaluation scores, in the order of their ids, and the training texts."""

    def __init__(self, evaluation: Evaluation, data: Any):
        ids = evaluated_ids(data, evaluation)
        sources, references = data.text(evaluation.split)
        self.sources, self.references = [sources[i] for i in ids], [references[i] for i in ids]
        self.data, self._evaluation = data, evaluation

    @cached_property
    def training(self) -> tuple[list[str], list[str]]:
        """(sources, targets) of the training split."""
        return self.data.text("train")

    @cached_property
    def nearest(self) -> tuple[list[str], np.ndarray]:
        """The target of the nearest training source for each source, and the similarity."""
        sources, targets = self.training
        found = nearest(self.bare, without_prefix(self.data, sources))
        return [targets[place] for place in found.place], found.similarity

    @cached_property
    def bare(self) -> list[str]:
        """The sources without a prefix, as they are scored."""
        return without_prefix(self.data, self.sources)

    @property
    def frequent(self) -> list[str]:
        """The most frequent training target for every source. Ties are broken alphabetically."""
        counts = Counter(self.training[1])
        return [min(counts, key=lambda text: (-counts[text], text))] * len(self.sources)

    def memory_else_copy(self, copies: Sequence[str]) -> list[str]:
        """The target of the nearest training source, or the copy if the similarity is below `COPIED_BELOW`."""
        pairs = zip(*self.nearest, copies, strict=True)
        return [copy if similarity < COPIED_BELOW else one for one, similarity, copy in pairs]

    def scored(self, written: Sequence[str], metrics: Sequence[str]) -> dict[str, float]:
        """The scores of these texts by the evaluation."""
        scores = self._evaluation.score(written, self.references, self.bare)  # type: ignore[attr-defined]
        return {metric: float(scores[metric]) for metric in metrics if metric in scores}


def translation_floors(evaluation: Evaluation, data: Any) -> Floors:
    """The floors "copy", "memory" and "memory_else_copy" with `bleu`. If the evaluation has `near`, the BLEU of near
    and far sources is added."""
    texts, near = _Texts(evaluation, data), getattr(evaluation, "near", None)
    written = {
        "copy": texts.bare,
        "memory": texts.nearest[0],
        "memory_else_copy": texts.memory_else_copy(texts.bare),
    }
    found = {name: texts.scored(one, ("bleu", "compound_split_bleu")) for name, one in written.items()}
    if near is not None:
        for name, one in written.items():
            split = by_distance(texts.nearest[1] >= near, one, texts.references)
            found[name] |= {metric: float(value) for metric, value in split.items() if metric.endswith("_bleu")}
    return found


def transduction_floors(evaluation: Evaluation, data: Any) -> Floors:
    """The floors "token_by_token", fitted on the scored references (`error_rate.token_by_token`), and "nearest_source".

    If targets begin as their sources do, "replaced_ending" is added (`endings`).
    """
    texts, metrics = _Texts(evaluation, data), ("error_rate", "word_error_rate")
    written = {
        "token_by_token": token_by_token(texts.bare, texts.references),
        "nearest_source": texts.nearest[0],
    }
    known = without_prefix(data, texts.training[0]), texts.training[1]
    if begin_alike(*known):
        written["replaced_ending"] = replaced_endings(*known, texts.bare)
    return {name: texts.scored(one, metrics) for name, one in written.items()}


def text_to_text_floors(evaluation: Any, data: Any) -> Floors:
    """The floor "majority", the most frequent training target, and further floors by task.

    These are "tfidf_logistic" for labels, "nearest_source" for answers, the floors of translation for translations, and
    "lead" for summaries.
    """
    texts, metrics = _Texts(evaluation, data), set(evaluation.chosen)
    found = {"majority": texts.frequent}
    classes = sorted(set(texts.training[1]))
    if metrics & _LABEL_METRICS and len(classes) <= _MOST_CLASSES:
        labels = np.searchsorted(classes, texts.training[1])
        words = lambda sources: [source.lower().split() for source in sources]
        said = predicted(words(texts.training[0]), labels, words(texts.sources))
        found["tfidf_logistic"] = [classes[one] for one in said]
    if metrics & {"exact_match", "token_f1"}:
        found["nearest_source"] = texts.nearest[0]
    if "bleu" in metrics:
        found |= {"copy": texts.bare, "memory": texts.nearest[0]}
        found["memory_else_copy"] = texts.memory_else_copy(texts.bare)
    if metrics & {"rouge1", "rouge2", "rougeL"}:
        found["lead"] = [lead(document) for document in texts.bare]
    return {name: texts.scored(written, (*evaluation.chosen, "score")) for name, written in found.items()}


def lead(text: str) -> str:
    """The first sentence of a text: up to a full stop (or ! or ?) before a capital letter.

    Abbreviations such as "Mr" must be written without a full stop, as the BBC does.

    >>> lead("He won 3.5 million. She did not.")
    'He won 3.5 million.'
    """
    end = _END.search(text)
    return text if end is None else text[: end.end()]


def tree_floors(evaluation: Evaluation, data: Any) -> Floors:
    """The floor "flat": one bracket around as many words as the reference has."""
    from attention_research.tasks.parseval import flat

    texts = _Texts(evaluation, data)
    written = [flat(reference) for reference in texts.references]
    return {"flat": texts.scored(written, ("f1", "precision", "recall", "complete_match"))}


def program_floors(evaluation: Evaluation, data: Any) -> Floors:
    """The floor "nearest_source": the program of the most similar training description."""
    texts = _Texts(evaluation, data)
    return {"nearest_source": texts.scored(texts.nearest[0], ("exact_match", "runs", "passes"))}


def caption_floors(evaluation: Evaluation, data: Any) -> Floors:
    """The floors "frequent", the most frequent training caption, and "other", the first caption of the next image."""
    texts = _Texts(evaluation, data)
    counts = Counter(caption for captions in data.text("train")[1] for caption in captions)
    frequent = min(counts, key=lambda text: (-counts[text], text))
    firsts = [captions[0] for captions in texts.references]
    metrics = (*(f"bleu_{n}" for n in range(1, 5)), "rouge_l", "cider_d", "cider")
    written = {"frequent": [frequent] * len(firsts), "other": [*firsts[1:], *firsts[:1]]}
    return {name: texts.scored(one, metrics) for name, one in written.items()}


def name_floors(evaluation: Evaluation, data: Any) -> Floors:
    """The floors "frequent", the most frequent training name, and "first_words" of each body, as many as a training
    name has on average."""
    texts = _Texts(evaluation, data)
    count = round(float(np.mean([len(name.split()) for name in texts.training[1]])))
    written = {"frequent": texts.frequent, "first_words": [first_words(body, count) for body in texts.bare]}
    metrics = ("precision", "recall", "f1", "exact_match")
    scores: Callable[[list[str]], dict[str, float]] = lambda one: naming_scores(
        [[text] for text in one], texts.references
    )
    return {name: {metric: scores(one)[metric] for metric in metrics} for name, one in written.items()}
