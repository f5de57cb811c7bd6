"""A translation memory: for a new source the training source that is most like it, and what stands beside that.

How much two texts are alike is Dice's coefficient of their sets of letter 3-grams, 2 |A & B| / (|A| + |B|): how often a
3-gram stands in a text does not count. A text is read as it is, with a space before it and one after it. Where all
words of all texts are single letters, as in spelling, the spaces between them are left out. Of equally similar training
sources the first is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Integer

from attention_research.data import storage
from attention_research.errors import ConfigError, RunError
from attention_research.tasks.evaluation import Scores, corpus_bleu

#: Changes whenever similarities are reckoned otherwise.
_VERSION = 1


class Nearest(NamedTuple):
    """Of each source the place of the training source that is most like it, and how much alike they are."""

    place: Integer[np.ndarray, "n"]
    similarity: Float[np.ndarray, "n"]


def nearest(sources: Sequence[str], known: Sequence[str]) -> Nearest:
    """The most similar `known` text for each source; the first one, with similarity 0, if none shares a 3-gram.

    >>> nearest(["Turn off the lamp", "q"], ["Delete", "Turn on the lamp"])
    Nearest(place=array([1, 0]), similarity=array([0.78787879, 0.        ]))
    """
    texts, grams = _trigrams([*known, *sources])
    sizes = np.bincount(texts, minlength=len(known) + len(sources))
    first = np.searchsorted(texts, len(known))
    # The training texts with each 3-gram stand one after the other.
    order = np.argsort(grams[:first], kind="stable")
    having, starts = texts[order], np.searchsorted(grams[order], np.arange(grams.max(initial=-1) + 2))
    ends = np.searchsorted(texts, np.arange(len(known), len(sizes) + 1))
    found = Nearest(np.zeros(len(sources), np.int64), np.zeros(len(sources)))
    for row, (start, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        lists = [having[starts[gram] : starts[gram + 1]] for gram in grams[start:end]]
        shared = np.bincount(np.concatenate([having[:0], *lists]), minlength=len(known))
        alike = 2.0 * shared / (sizes[: len(known)] + (end - start))
        found.place[row] = np.argmax(alike)
        found.similarity[row] = alike[found.place[row]]
    return found


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(number of the text, number of the 3-gram) of each 3-gram of each text, each once and in order."""
    letters = all(len(word) == 1 for text in texts for word in text.split())
    read = [f" {''.join(text.split()) if letters else text} " for text in texts]
    points = np.frombuffer("".join(read).encode("utf-32-le"), np.uint32).astype(np.int64)
    text = np.repeat(np.arange(len(read)), [len(one) for one in read])
    inside = text[:-2] == text[2:]
    keys = ((points[:-2] << 42) | (points[1:-1] << 21) | points[2:])[inside]  # a code point has 21 bits
    grams, number = np.unique(keys, return_inverse=True)
    return np.divmod(np.unique(text[:-2][inside] * max(len(grams), 1) + number), max(len(grams), 1))


def similarities(data: Any, sources: Sequence[str], report: Callable[[str], None]) -> Nearest | None:
    """`nearest` among the training sources, kept in the data folder under the training text and these sources.

    None, and a line that says so, where it was never computed and the training text cannot be read.
    """
    data = getattr(data, "_data", data)  # of other files that a run is evaluated on: the run's own
    key = storage.content_hash([_VERSION, data._prepared.splits["train"]["digest"]], sources)
    path = storage.folder("similarities") / f"{key}.npz"
    if not path.exists():
        try:
            known, _ = data.text("train")
        except (ConfigError, RunError, OSError) as error:
            report(f"evaluation.near: the training text is not here, near and far are left out ({error})")
            return None
        found = nearest(sources, known)
        with storage.written(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, place=found.place, similarity=found.similarity)
    with np.load(path) as stored:
        return Nearest(stored["place"], stored["similarity"])


def by_distance(near: Bool[np.ndarray, "n"], hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """`near_bleu` of the sources that are `near` to a training source, `far_bleu` of the others, and how many each are;
    without the BLEU of a set that is empty."""
    found: Scores = {}
    for name, of in (("near", near), ("far", ~near)):
        rows = np.flatnonzero(of).tolist()
        found[f"{name}_sentences"] = len(rows)
        if len(rows):
            chosen = [[side[row] for row in rows] for side in (hypotheses, references)]
            found[f"{name}_bleu"] = corpus_bleu(*chosen)[0]
    return found
