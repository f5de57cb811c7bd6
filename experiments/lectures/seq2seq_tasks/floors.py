"""The baseline of generated programs: the program whose training description shares most words with the given one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.tasks.programs import program_scores
from attention_research.training.evaluation import Trained


def nearest(questions: Sequence[str], known: Sequence[str]) -> list[int]:
    """For each question, finds the known text with the largest Dice coefficient of the two bags of words.

    Of equal texts the first is chosen.

    >>> nearest(["double them and sort"], ["count them", "sort", "double them"])
    [2]
    """
    words = {word: column for column, word in enumerate(sorted({word for text in known for word in text.split()}))}

    def bags(texts: Sequence[str]) -> np.ndarray:
        found = np.zeros((len(texts), len(words)), np.float32)
        for row, text in enumerate(texts):
            for word, count in Counter(text.split()).items():
                if word in words:
                    found[row, words[word]] = count
        return found

    ours, theirs = bags(questions), bags(known)
    # The overlap of two bags is a sum of minima, computed with one matrix product for each count from 1 up.
    most = int(max(ours.max(), theirs.max()))
    shared = sum((ours >= n).astype(np.float32) @ (theirs >= n).astype(np.float32).T for n in range(1, most + 1))
    sizes = [np.asarray([len(text.split()) for text in texts], np.float32) for texts in (questions, known)]
    return np.argmax(2 * shared / (sizes[0][:, None] + sizes[1][None]), axis=1).tolist()


def measure_nearest(*, workdir: Path, seed: int, examples: int | None = None, **_: Any) -> dict[str, Any]:
    """Measures `tasks.programs.program_scores` of a trained run on described programs, and of the programs of the
    nearest training descriptions ("nearest_...")."""
    del seed
    trained = Trained(workdir)
    texts = trained.translations(trained.model(), trained.data.evaluation_batches("test", 64, examples))
    sources, references = trained.data.text("test")
    known, programs = trained.data.text("train")
    wanted = [references[i] for i in texts]
    found = [programs[i] for i in nearest([sources[i] for i in texts], known)]
    floor = program_scores(found, wanted)
    return {**program_scores(list(texts.values()), wanted), **{f"nearest_{name}": x for name, x in floor.items()}}
