"""Wang et al. 2020 (Linformer), Table 2: accuracy after fine-tuning, by projected length and by sharing.

    attention-research reproduce linformer2020/table2 --scale=cpu

The masked language model of `linformer2020/figure3`, pre-trained on film reviews without their labels, then fine-tuned
(`models.classifiers.cloze_classifier`) on what there is of labelled text, a run each: sentences of reviews (Rotten
Tomatoes, of which SST-2 is made), whole reviews (IMDB's training half by our split), stories by topic (BBC: no column
of the paper's). QNLI and QQP, pairs of sentences, are in no registry package: their cells have published numbers only.
Ours has 128 tokens where the paper's has 512, and so k of 32 and 64 where it has 128 and 256.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Stage, Study, finetune, train
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from ..haviv2022.nopos import SMOKE, masked
from ..haviv2022.schemes import CONFIG
from .figure3 import GPU, linformer
from .table2_verdicts import ROWS, TASKS, VERDICTS, draw

#: Task -> its set, classes.
SETS = {"sentence": ("reviews/rotten_tomatoes", 2), "review": ("reviews/imdb", 2), "topic": ("news/bbc", 5)}
#: Room for the class tokens beside the hidden token's.
TOKENS = {"data.sentinels": 8}
#: A row that is not pre-trained: one step at a rate that moves nothing.
SCRATCH = {"training.steps": 1, "training.learning_rate": 1e-30, "training.eval_every": 1}
#: Scale -> updates, rows a batch, rate of a fine-tuning; test texts that are scored (None: all).
TUNING = {"gpu": (1000, 32, 0.0001, None), "cpu": (150, 8, 0.001, 1000), "smoke": (2, 4, 0.001, 16)}
LARGE = ("cpu", "gpu")


def tuned(task: str, scale: str) -> dict[str, Any]:
    """What a fine-tuning changes of its row at a scale."""
    (name, classes), (steps, batch_size, rate, examples) = SETS[task], TUNING[scale]
    return {
        "task": {"kind": "classification"},
        "data": {"kind": "labelled", "name": name, "boundaries": (), "normalization": "none"},
        "model.kind": "cloze_classifier",
        "model.num_classes": classes,
        "training.steps": steps,
        "training.batch_size": batch_size,
        "training.learning_rate": rate,
        "training.schedule": {"kind": "linear", "warmup_steps": steps // 10},
        "training.eval_every": steps,
        "training.eval_batches": 1,
        "training.checkpoint_every": steps,
        "evaluation": {"kind": "classification", "split": "test", "examples": examples, "batch_size": 16},
    }


STAGES: tuple[Stage, ...] = (
    train,
    *(finetune(task, tuned(task, "gpu"), at={scale: tuned(task, scale) for scale in TUNING}) for task in TASKS),
)


def row(id: str, name: str, overrides: dict[str, Any]) -> Row:
    """A row of ours; at smoke one of each sort, small."""
    scales = None if id in ("full_scratch", "k_32") else LARGE
    return Row(id, name, overrides, at={"smoke": {**overrides, **SMOKE}}, scales=scales)


def ours(id: str) -> dict[str, Any]:
    """Overrides of a row by its id: full, full_scratch, or k_RANK with a sharing behind it."""
    if not id.startswith("k_"):
        return {**masked({}), **TOKENS, **(SCRATCH if id == "full_scratch" else {})}
    _, rank, *sharing = id.split("_")
    names = {"": "headwise", "kv": "key_value", "layer": "layerwise"}
    return {**linformer(int(rank), names["".join(sharing)]), **TOKENS}


SHORT = {"training.steps": 300, "training.checkpoint_every": 300, "training.eval_every": 300}
STUDY = Study(
    rows=tuple(row(id, name, ours(id)) if runs else Row(id, name, scales=()) for id, (name, runs) in ROWS.items()),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1),
        "cpu": Scale(f"{CONFIG}:cpu", SHORT, seeds=3, jobs=2, replicas=True),
        "gpu": Scale(f"{CONFIG}:cpu", GPU, seeds=3),
    },
    stages=STAGES,
    columns=(
        PARAMETERS,
        LOSS,
        *(Column(f"{task}.accuracy", f"{name}, accuracy", fixed(1), better="higher") for task, name in TASKS.items()),
    ),
    published="table2.csv",
    compared={"sentence.accuracy": "SST-2", "review.accuracy": "IMDB"},
    claims="../claims.csv",
    competence=(
        Competence("full", "sentence.accuracy", "majority", margin=15, higher=True),
        Competence("full", "review.accuracy", "majority", margin=15, higher=True),
        Competence("full", "topic.accuracy", "majority", margin=15, higher=True),
    ),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        "Accuracy on our own test splits, in percent; the first 127 pieces of a text are read. The published cells are "
        "of other data and of models of BERT-base's size: compare differences between rows.",
        "Rotten Tomatoes stands where SST-2 does, IMDB's training half by our split where IMDB; nothing stands for "
        "QNLI and QQP, and BBC's topics for no column.",
        "Loss: of the hidden tokens, in pre-training. From scratch: not pre-trained.",
    ),
)  # fmt: skip
