"""One encoder-decoder on three tasks other than translation: any lengths, parse trees and code.

    attention-research reproduce lectures/seq2seq_tasks --scale=cpu

In every row the model is RNNsearch of configs/translation/recurrent_generated.py, from a source text to a target text.
The rows differ in the data, the longest text and the vocabulary. Trees and programs are compared with a baseline that
does not solve the task (`floors`): one bracket around all words, and the program of the most similar description.

All texts are generated. Programs that a model generates are never executed (`tasks.restricted_python`). Two claims of
the lectures, about summaries and dialogues, are struck: `../../claims.csv` says why.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Stage, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence

from .figures import draw_cells, draw_floors
from .floors import measure_nearest
from .length_cells import measure_cells
from .verdicts import VERDICTS

CONFIG = "configs/translation/recurrent_generated.py"
#: The number of training examples of each task at the scale smoke.
FEW = {"train_examples": 512}


def task(id: str, name: str, data: dict[str, Any], changes: dict[str, Any], stage: Stage) -> Row:
    """A row, with its data, its sizes and steps, and the measurement of the trained run."""
    overrides = {**changes, "data": data, "decoding.extra_length": 40}
    steps = {"training.steps": 4, "training.checkpoint_every": 4, "training.eval_every": 4}
    scored = {**changes["evaluation"], "examples": 16, "batch_size": 16}
    small = {**overrides, **steps, "data": {**data, **FEW}, "evaluation": scored}
    return Row(id, name, overrides, at={"smoke": small}, stages=(train, evaluate, stage))


def pairs(name: str, source: str, target: str, *boundaries: int) -> dict[str, Any]:
    """The data section for pairs of texts, with one token per word."""
    languages = {"source_language": source, "target_language": target}
    batching = {"kind": "buckets", "boundaries": boundaries}
    return {"kind": "pairs", "name": name, **languages, "tokenizer": {"kind": "words"}, "batching": batching}


def sizes(length: int, vocabulary: int, steps: int, **evaluation: Any) -> dict[str, Any]:
    """The overrides for the longest text, the vocabulary, the number of updates and the evaluation."""
    training = {"training.steps": steps, "training.checkpoint_every": steps, "training.eval_every": steps}
    return {"max_length": length, "vocabulary_size": vocabulary, **training, "evaluation": evaluation}


STUDY = Study(
    rows=(
        task("lengths", "any lengths", pairs("run_lengths/free", "source", "target"),
             sizes(16, 64, 2000, kind="bleu"), measure(measure_cells, edges=(1, 3, 5, 7, 9, 11, 13))),
        task("parsing", "sentences to trees", pairs("parse_generated/short", "en", "tree", 16),
             sizes(32, 512, 1200, kind="parseval"), measure(measure_cells, edges=tuple(range(1, 34, 4)))),
        task("code", "descriptions to Python",
             pairs("described_programs/python", "description", "code", 24, 32),
             sizes(40, 160, 1200, kind="programs"), measure(measure_nearest)),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 64}),
        "cpu": Scale(f"{CONFIG}:local", seeds=3, jobs=2, settings={"examples": 2000}),
        "gpu": Scale(f"{CONFIG}:local", {"model.width": 512, "training.batch_size": 128}, seeds=3,
                     settings={"examples": 4000}),
    },
    columns=(
        PARAMETERS,
        LOSS,
        PERPLEXITY,
        Column("measure.exact", "exact match, %", fixed(1, 100), better="higher"),
        Column("evaluate.f1", "bracket F1", fixed(1), better="higher"),
        Column("evaluate.flat_f1", "F1 of one bracket", fixed(1), spread=False),
        Column("evaluate.malformed", "malformed trees, %", fixed(1), better="lower"),
        Column("measure.exact_match", "exact programs, %", fixed(1), better="higher"),
        Column("measure.runs", "programs that run, %", fixed(1), better="higher"),
        Column("measure.passes", "programs that pass, %", fixed(1), better="higher"),
        Column("measure.nearest_passes", "nearest that pass, %", fixed(1), spread=False),
    ),
    claims="../../claims.csv",
    competence=(
        Competence("lengths", "measure.exact", line=0.9, higher=True, claims=("sequence-to-sequence-any-lengths",),
                   rows=("lengths",)),
        Competence("parsing", "evaluate.f1", line=90, higher=True, claims=("task-parsing",), rows=("parsing",)),
        Competence("code", "measure.passes", line=90, higher=True, claims=("task-code-generation",), rows=("code",)),
    ),
    verdicts=VERDICTS,
    figures=(draw_cells, draw_floors),
    notes=(
        "The model is RNNsearch with width 128. All scores are on test splits. Nearest: the program of the training "
        "description that shares most words.",
        "All texts are generated, with one token per word.",
    ),
)  # fmt: skip
