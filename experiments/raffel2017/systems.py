"""What `raffel2017/online` and `chiu2018/table1` share: models that can be read online, their tasks and their scales.

No study. All models have one encoder and decoder: a GRU that reads forward, and a decoder that starts from zeros, so
that a target token depends on no source token behind the one at which it was written.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale
from attention_research.studies.columns import Column, fixed
from attention_research.studies.study import evaluate, measure, train

from .reading import measure_reading

CONFIG = "configs/pronunciation/recurrent.py"
ONLINE = {"model.encoder": {"kind": "unidirectional"}, "model.decoder.start": {"kind": "zeros"}}
STAGES = (train, evaluate, measure(measure_reading))
#: task -> (what it is called, its data set)
TASKS = {
    "sounds": ("letters to sounds", "pronunciation/en"),
    "monotone": ("generated, source order", "generated_translation/monotone"),
    "local": ("generated, words moved", "generated_translation/local"),
    "reversed": ("generated, from the end", "generated_translation/reversed"),
}
ERROR_RATE = Column("evaluate.error_rate", "error rate %", fixed(2), better="lower")
SEQUENCES_WRONG = Column("evaluate.word_error_rate", "sequences wrong %", fixed(1), better="lower")
BLEU = Column("measure.bleu", "BLEU", fixed(1), better="higher")
AVERAGE_LAG = Column("measure.average_lag", "average lag", fixed(2), better="lower")
ONLINE_EQUAL = Column("measure.online_equal", "online = offline %", fixed(1, 100))


def alignment(kind: str, width: int, **settings: Any) -> dict[str, Any]:
    """The section of soft, hard monotonic or chunkwise attention, all additive energies of that width."""
    score = {"kind": "additive", "attention_width": width}
    section = {
        "soft": {"kind": "global", "score": score},
        "monotonic": {"kind": "monotonic", "attention_width": width},
        "mocha": {"kind": "mocha", "attention_width": width, "score": score},
    }[kind]
    return {**section, **settings}


def row(task: str, id: str, name: str, kind: str, **settings: Any) -> Row:
    """A task with an alignment; sentences are longer than words, so that they get fewer and smaller batches."""
    title, data = TASKS[task]
    changes: dict[str, Any] = {}
    trained: dict[str, Any] = {}
    if task != "sounds":
        sides = {"data.source_language": "source", "data.target_language": "target"}
        changes = {"data.name": data, **sides, "vocabulary_size": 320, "decoding.extra_length": 16}
        trained = {"training.steps": 1200, "training.batch_size": 32, "training.checkpoint_every": 1200}
    small, large = ({"model.alignment": alignment(kind, width, **settings), **changes} for width in (8, 64))
    return Row(f"{task}_{id}", f"{title}: {name}", large | trained, at={"smoke": small, "gpu": large})


def scales(note: str, gpu_seeds: int) -> dict[str, Scale]:
    """The same sizes for both studies."""
    larger = {"model.width": 256, "training.steps": 20_000, "training.batch_size": 256}
    return {
        "smoke": Scale(f"{CONFIG}:smoke", ONLINE, seeds=1, jobs=2, settings={"examples": 16}, note=note),
        "cpu": Scale(f"{CONFIG}:cpu", ONLINE, seeds=3, jobs=2, settings={"examples": 256}, note=note),
        "gpu": Scale(f"{CONFIG}:cpu", ONLINE | larger, seeds=gpu_seeds, settings={"examples": 1024}, note=note),
    }
