"""A translation memory: returns the target of the training source that is most similar to a new source.

The similarity of two texts is the Dice coefficient of their sets of character 3-grams, 2 |A & B| / (|A| + |B|).
Repetitions of a 3-gram do not count. A text is used as it is, with one space added before and after it. If all words of
all texts are single letters, as in spelling, the spaces between them are left out. Of equally similar training sources,
the first one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from attention_research.data import storage
from attention_research.data.text_to_text import without_prefix
from attention_research.errors import ConfigError, RunError
from attention_research.tasks.evaluation import Scores, corpus_bleu

#: The version of the similarity, part of the cache key. Change it when the computation changes.
_VERSION = 1


class Nearest(NamedTuple):
    """The index of the most similar training source for each source, and their similarity."""

    place: Integer[np.ndarray, "n"]
    similarity: Float[np.ndarray, "n"]


def nearest(sources: Sequence[str], known: Sequence[str]) -> Nearest:
    """The most similar `known` text for each source; the first one, with similarity 0, if none shares a 3-gram.

    >>> nearest(["Turn off the lamp", "q"], ["Delete", "Turn on the lamp"])
    Nearest(place=array([1, 0]), similarity=array([0.79, 0.  ]))
    """
    texts, grams = _trigrams([*known, *sources])
    sizes = np.bincount(texts, minlength=len(known) + len(sources))
    first = np.searchsorted(texts, len(known))
    # `having` lists the training texts of each 3-gram consecutively.
    order = np.argsort(grams[:first], kind="stable")
    having, starts = texts[order], np.searchsorted(grams[order], np.arange(grams.max(initial=-1) + 2))
    ends = np.searchsorted(texts, np.arange(len(known), len(sizes) + 1))
    found = Nearest(np.zeros(len(sources), np.int64), np.zeros(len(sources)))
    for row, (start, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        lists = [having[starts[gram] : starts[gram + 1]] for gram in grams[start:end]]
        shared = np.bincount(np.concatenate([having[:0], *lists]), minlength=len(known))
        alike = 2.0 * shared / np.maximum(sizes[: len(known)] + (end - start), 1)  # empty texts have no 3-gram
        found.place[row] = np.argmax(alike)
        found.similarity[row] = alike[found.place[row]]
    return found


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(index of the text, index of the 3-gram) of each distinct 3-gram of each text, sorted."""
    letters = all(len(word) == 1 for text in texts for word in text.split())
    read = [f" {''.join(text.split()) if letters else text} " for text in texts]
    points = np.frombuffer("".join(read).encode("utf-32-le"), np.uint32).astype(np.int64)
    text = np.repeat(np.arange(len(read)), [len(one) for one in read])
    inside = text[:-2] == text[2:]
    keys = ((points[:-2] << 42) | (points[1:-1] << 21) | points[2:])[inside]  # a code point has 21 bits
    grams, number = np.unique(keys, return_inverse=True)
    return np.divmod(np.unique(text[:-2][inside] * max(len(grams), 1) + number), max(len(grams), 1))


def similarities(data: Any, sources: Sequence[str], report: Callable[[str], None]) -> Nearest | None:
    """`nearest` among the training sources, cached in the data folder by the training text and these sources, which
    have no prefix (`data.text_to_text.without_prefix`).

    Returns None and reports the reason if there is no cached result and the training text cannot be read.
    """
    data = getattr(data, "_data", data)  # for an evaluation on other files, use the data of the run
    key = storage.content_hash([_VERSION, data._prepared.splits["train"]["digest"]], sources)
    path = storage.folder("similarities") / f"{key}.npz"
    if not path.exists():
        try:
            known = without_prefix(data, data.text("train")[0])
        except (ConfigError, RunError, OSError) as error:
            report(f"evaluation.near: without the training text, there are no scores of near and far sources ({error})")
            return None
        found = nearest(sources, known)
        with storage.written(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, place=found.place, similarity=found.similarity)
    with np.load(path) as stored:
        return Nearest(stored["place"], stored["similarity"])


def by_distance(near: Bool[np.ndarray, "n"], hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """`near_bleu` of the sources `near` to a training source, `far_bleu` of the others, and the number of each.

    The BLEU of an empty set is left out.
    """
    found: Scores = {}
    for name, of in (("near", near), ("far", ~near)):
        rows = np.flatnonzero(of).tolist()
        found[f"{name}_sentences"] = len(rows)
        if len(rows):
            chosen = [[side[row] for row in rows] for side in (hypotheses, references)]
            found[f"{name}_bleu"] = corpus_bleu(*chosen)[0]
    return found
