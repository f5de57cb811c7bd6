"""Chiu & Raffel 2018, Tables 1 and 2: monotonic chunkwise attention (MoChA) between hard monotonic and soft attention.

    attention-research reproduce raffel2017/online --scale=cpu
    attention-research reproduce chiu2018/table1 --scale=cpu --workdir=runs/raffel2017-online-cpu   # shares its trials

The paper's WSJ and its CNN/Daily Mail summaries are licensed or not to be had: their cells are printed, ours are other
tasks. Letters to sounds have one order, as speech has; of generated sentences adjectives and adverbs move by a word or
two, which the paper's chunks are for. Six of the rows are rows of `raffel2017/online`, and so are their trials.
"""

from __future__ import annotations

from typing import Any

from attention_research.analysis.reading import measure_reading
from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.study import evaluate, measure, train

CONFIG = "configs/pronunciation/recurrent.py"
TASKS = {"sounds": "letters to sounds", "local": "generated, words moved"}
CHUNKS = (2, 4, 8)
#: The changes of `raffel2017/online`'s rows of generated sentences.
LOCAL = {
    "data.name": "generated_translation/local",
    "data.source_language": "source",
    "data.target_language": "target",
    "vocabulary_size": 320,
    "decoding.extra_length": 16,
}
LOCAL_TRAINING = {"training.steps": 1200, "training.batch_size": 32, "training.checkpoint_every": 1200}


def alignments(width: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Row id -> (its name, its alignment), all additive energies of that width."""
    score = {"kind": "additive", "attention_width": width}
    monotonic = {"attention_width": width}
    return {
        "soft": ("soft", {"kind": "global", "score": score}),
        "monotonic": ("hard monotonic", {"kind": "monotonic", **monotonic}),
        **{
            f"mocha_{size}": (f"MoChA w = {size}", {"kind": "mocha", **monotonic, "chunk_size": size, "score": score})
            for size in CHUNKS
        },
    }


def row(task: str, alignment: str) -> Row:
    """A task with an alignment."""
    data, trained = (LOCAL, LOCAL_TRAINING) if task == "local" else ({}, {})
    name, section = alignments(64)[alignment]
    small = {"model.alignment": alignments(8)[alignment][1], **data}
    changes = {"model.alignment": section, **data}
    return Row(
        f"{task}_{alignment}", f"{TASKS[task]}: {name}", changes | trained, at={"smoke": small, "gpu": changes}
    )  # fmt: skip


def printed(id: str, name: str) -> Row:
    """A system that stands here by its printed cells alone."""
    return Row(id, f"paper: {name}", scales=())


ONLINE = {"model.encoder": {"kind": "unidirectional"}, "model.decoder.start": {"kind": "zeros"}}
NOTE = "Ours: error rate of phonemes or of words of generated sentences; the paper's: words of WSJ, ROUGE of CNN/DM."
STUDY = Study(
    rows=(
        *(row(task, alignment) for task in TASKS for alignment in alignments(64)),
        printed("paper_ctc", "CTC (Raffel 2017)"),
        printed("paper_rl", "reinforcement learning (Luo 2016)"),
        printed("paper_ctc_wang", "CTC (Wang 2016)"),
        printed("paper_monotonic", "hard monotonic"),
        printed("paper_soft", "soft, offline"),
        printed("paper_mocha_2", "MoChA w = 2"),
        printed("paper_mocha_8", "MoChA w = 8"),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", ONLINE, seeds=1, jobs=2, settings={"examples": 16}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", ONLINE, seeds=3, jobs=2, settings={"examples": 256}, note=NOTE),
        "gpu": Scale(
            f"{CONFIG}:cpu",
            ONLINE | {"model.width": 256, "training.steps": 20_000, "training.batch_size": 256},
            seeds=8,
            settings={"examples": 1024},
            note=NOTE,
        ),
    },
    stages=(train, evaluate, measure(measure_reading)),
    columns=(
        PARAMETERS,
        STEPS_PER_SECOND,
        LOSS,
        Column("evaluate.error_rate", "error rate %", fixed(2), better="lower"),
        Column("evaluate.word_error_rate", "sequences wrong %", fixed(1), better="lower"),
        Column("measure.bleu", "BLEU", fixed(1), better="higher"),
        Column("measure.average_lag", "average lag", fixed(2), better="lower"),
        Column("measure.online_equal", "online = offline %", fixed(1, 100)),
        Column("measure.reordered_recall", "moved words aligned %", fixed(1, 100), better="higher"),
    ),
    published="table1.csv",
)
