"""Wang et al. 2020 (Linformer), Table 2: accuracy after fine-tuning, by projected length and by sharing.

    attention-research reproduce linformer2020/table2 --scale=cpu

The model is the masked language model of `linformer2020/figure3`. It is pre-trained on film reviews without their
labels and then fine-tuned (`models.classifiers.cloze_classifier`) on each available labelled data set: sentences of
reviews (Rotten Tomatoes, the source of SST-2), whole reviews (IMDB's training half with our split), and stories by
topic (BBC, not in the paper). QNLI and QQP, pairs of sentences, are in no registry package, so they have published
numbers only. Ours has 128 tokens instead of the paper's 512, and k of 32 and 64 instead of 128 and 256. At `cpu` a
fine-tuning has 1,000 updates of 32 texts. After 700, the training loss on sentences is 0.1 without pre-training.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Stage, Study, finetune, train
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from ..haviv2022.nopos import SMOKE, masked
from ..haviv2022.schemes import CONFIG
from .figure3 import GPU, PLACED, linformer
from .table2_verdicts import ROWS, TASKS, VERDICTS, draw

#: Task -> data set, number of classes.
SETS = {"sentence": ("reviews/rotten_tomatoes", 2), "review": ("reviews/imdb", 2), "topic": ("news/bbc", 5)}
#: The number of sentinel tokens, for the mask token and the class tokens.
TOKENS = {"data.sentinels": 8}
#: The overrides of a row that is not pre-trained: one step with a learning rate that changes nothing.
SCRATCH = {"training.steps": 1, "training.learning_rate": 1e-30, "training.eval_every": 1}
#: Scale -> updates, batch size and learning rate of a fine-tuning, and the number of scored test texts (None: all).
TUNING = {"gpu": (1000, 32, 0.0001, None), "cpu": (1000, 32, 0.001, 2000), "smoke": (2, 4, 0.001, 16)}
LARGE = ("cpu", "gpu")


def tuned(task: str, scale: str) -> dict[str, Any]:
    """The overrides of a fine-tuning at a scale."""
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
    """A row that is trained here. At smoke only one small row of each sort is run, and at cpu the sharings with one
    k."""
    scales = None if id in ("full_scratch", "k_32") else ("gpu",) if id in ("k_64_kv", "k_64_layer") else LARGE
    return Row(id, name, overrides, at={"smoke": {**overrides, **SMOKE}}, scales=scales)


def ours(id: str) -> dict[str, Any]:
    """The overrides of a row by its id: full, full_scratch, or k_RANK followed by the sharing."""
    if not id.startswith("k_"):
        return {**masked(PLACED), **TOKENS, **(SCRATCH if id == "full_scratch" else {})}
    _, rank, *sharing = id.split("_")
    names = {"": "headwise", "kv": "key_value", "layer": "layerwise"}
    return {**linformer(int(rank), names["".join(sharing)]), **TOKENS}


SHORT = {"training.steps": 1000, "training.checkpoint_every": 1000, "training.eval_every": 1000}
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
        "Accuracy: on our own test splits, in percent, from the first 127 word pieces of a text. The published cells "
        "are for other data and for models of the size of BERT-base: compare differences between rows.",
        "Rotten Tomatoes takes the place of SST-2, and IMDB's training half with our split that of IMDB. Nothing takes "
        "the place of QNLI and QQP; BBC topics are not in the paper.",
        "Loss: that of masked tokens in pre-training. From scratch: without pre-training.",
    ),
)  # fmt: skip
