"""Baselines of `lectures/seq2seq_tasks` that do not solve the tasks.

task            baseline
summarization   the first sentence of the text; its first words, as many as an average summary has
dialogue        the same reply after the history of another example
code            the program whose training description shares most words with the given description
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from attention_research.tasks.floors.written import lead
from attention_research.tasks.programs import program_scores
from attention_research.tasks.rouge import rouge
from attention_research.tokens import PAD
from attention_research.training.evaluation import Trained

KINDS = ("rouge1", "rouge2", "rougeL")


def measure_lead(*, workdir: Path, seed: int, prefix: str, examples: int | None = None, **_: Any) -> dict[str, Any]:
    """Measures ROUGE of a trained run on texts and summaries.

    The scores are those of its outputs ("rouge1", ...), of lead sentences ("lead_..."), of lead words ("words_..."),
    and of its outputs against the summary of another text ("other_...").
    """
    del seed
    trained = Trained(workdir)
    texts = trained.translations(trained.model(), trained.data.evaluation_batches("test", 64, examples))
    sources, references = trained.data.text("test")
    documents = [sources[i].removeprefix(prefix) for i in texts]
    wanted, written = [references[i] for i in texts], list(texts.values())
    count = round(np.mean([len(summary.split()) for summary in trained.data.text("train")[1]]))
    floors = {
        "": (written, wanted),
        "lead_": ([lead(document) for document in documents], wanted),
        "words_": ([" ".join(document.split()[:count]) for document in documents], wanted),
        "other_": (written, wanted[1:] + wanted[:1]),
    }
    return {f"{name}{kind}": rouge(*pair, kind) for name, pair in floors.items() for kind in KINDS}


def measure_history(*, workdir: Path, seed: int, examples: int, **_: Any) -> dict[str, Any]:
    """Measures the perplexity of a trained run on dialogues.

    "own" is the perplexity of replies after their own histories. "shuffled" is that of the same replies after the
    histories of their neighbours in the batch, which have about the same length.
    """
    del seed
    trained = Trained(workdir)

    @jax.jit
    def likelihood(arrays: Any, batch: dict[str, jax.Array]) -> jax.Array:
        values, _ = trained.trainer.structure.merge(*arrays).log_likelihood(batch)
        return values["log_likelihood"]

    sums, tokens = {"own": 0.0, "shuffled": 0.0}, 0
    for ids, batch in trained.data.evaluation_batches("test", 64, examples):
        rows = ids >= 0
        real = (batch["target"] != PAD) & rows[:, None]
        order = np.arange(len(ids))
        order[rows] = np.roll(order[rows], 1)
        for name, source in (("own", batch["source"]), ("shuffled", batch["source"][order])):
            values = np.asarray(likelihood(trained.model(), {**batch, "source": source}), np.float64)
            sums[name] += values[real].sum()
        tokens += int(real.sum())
    return {name: math.exp(-total / tokens) for name, total in sums.items()} | {"tokens": tokens}


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
