"""Shared by `raffel2017/online` and `chiu2018/table1`: models that support online decoding, their tasks and scales.

This module defines no study. All models have the same encoder and decoder: a forward GRU and a decoder that starts from
zeros, so that a target token does not depend on source tokens after the one at which it was generated.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.study import evaluate, measure, train

from .reading import measure_reading

CONFIG = "configs/pronunciation/recurrent.py"
ONLINE = {"model.encoder": {"kind": "unidirectional"}, "model.decoder.start": {"kind": "zeros"}}
STAGES = (train, evaluate, measure(measure_reading))
#: task -> (name, data set)
TASKS = {
    "sounds": ("letters to sounds", "pronunciation/en"),
    "monotone": ("generated, source order", "generated_translation/monotone"),
    "local": ("generated, words moved", "generated_translation/local"),
    "reversed": ("generated, from the end", "generated_translation/reversed"),
    "inflection": ("inflected verbs", "inflection/fr"),
}
ERROR_RATE = Column("evaluate.error_rate", "error rate, %", fixed(2), better="lower")
SEQUENCES_WRONG = Column("evaluate.word_error_rate", "wrong sequences, %", fixed(1), better="lower")
BLEU = Column("measure.bleu", "BLEU", fixed(1), better="higher")
AVERAGE_LAG = Column("measure.average_lag", "average lag", fixed(2), better="lower")
ONLINE_EQUAL = Column("measure.online_equal", "online equals offline, %", fixed(1, 100))


def pronounces(row: str, *rows: str, claims: tuple[str, ...] = ()) -> Competence:
    """The bar for letters to sounds: 15 points fewer wrong sounds than one fixed sound for each letter."""
    return Competence(row, "evaluate.error_rate", "token_by_token", margin=15, claims=claims, rows=rows)


def alignment(kind: str, width: int, **settings: Any) -> dict[str, Any]:
    """The section of soft, hard monotonic or chunkwise attention, with additive energies of the given width."""
    score = {"kind": "additive", "attention_width": width}
    section = {
        "soft": {"kind": "global", "score": score},
        "monotonic": {"kind": "monotonic", "attention_width": width},
        "mocha": {"kind": "mocha", "attention_width": width, "score": score},
    }[kind]
    return {**section, **settings}


def row(task: str, id: str, name: str, kind: str, **settings: Any) -> Row:
    """The row of a task with an alignment. Sentences are longer than words and get fewer and smaller batches."""
    title, data = TASKS[task]
    changes: dict[str, Any] = {}
    trained: dict[str, Any] = {}
    if task == "inflection":
        changes = {"data.name": data, "data.source_language": "features", "data.target_language": "form"}
        trained = {"training.steps": 4000, "training.checkpoint_every": 4000}
    elif task != "sounds":
        sides = {"data.source_language": "source", "data.target_language": "target"}
        changes = {"data.name": data, **sides, "vocabulary_size": 320, "decoding.extra_length": 16}
        trained = {"training.steps": 1200, "training.batch_size": 32, "training.checkpoint_every": 1200}
    small, large = ({"model.alignment": alignment(kind, width, **settings), **changes} for width in (8, 64))
    return Row(f"{task}_{id}", f"{title}: {name}", large | trained, at={"smoke": small, "gpu": large})


def scales(note: str, gpu_seeds: int) -> dict[str, Scale]:
    """The scales, with the same sizes for both studies."""
    larger = {"model.width": 256, "training.steps": 20_000, "training.batch_size": 256}
    return {
        "smoke": Scale(f"{CONFIG}:smoke", ONLINE, seeds=1, jobs=2, settings={"examples": 16}, note=note),
        "cpu": Scale(f"{CONFIG}:cpu", ONLINE, seeds=3, jobs=2, settings={"examples": 256}, note=note),
        "gpu": Scale(f"{CONFIG}:cpu", ONLINE | larger, seeds=gpu_seeds, settings={"examples": 1024}, note=note),
    }
