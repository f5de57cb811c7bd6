"""Raffel et al. 2020 (T5), Table 4: pre-training objectives of an encoder-decoder, and accuracy by number of labels.

    attention-research reproduce t5_2020/objectives --scale=cpu

The paper's cells are GLUE and SuperGLUE. Ours are accuracies after fine-tuning on few labels of two data sets
(`labels`), compared with the same fine-tunings of a model that was not pre-trained. All objectives see the same number
of text chunks, but differ in how much of a chunk the model reads and writes; "GFLOP" gives the cost. The loss is that
of the row's own targets, so losses of different objectives cannot be compared.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, STEPS_PER_SECOND
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict

from .labels import COLUMNS, SCRATCH, against_scratch, curves, stages

CONFIG = "configs/text_to_text/t5_2020.py"
OBJECTIVES = {
    "span_corruption": "Span corruption",
    "bert_style": "BERT-style",
    "prefix_language_model": "Prefix LM",
    "language_model": "LM, nothing to read",
    "deshuffling": "Deshuffling",
}


def pretraining_helps(results: Results) -> Verdict:
    """Every objective is better than training from scratch, at every number of labels of every task."""
    return against_scratch(results, dict.fromkeys(OBJECTIVES, "scratch"))


STUDY = Study(
    rows=(
        *(Row(kind, name, {"data.objective": {"kind": kind}}) for kind, name in OBJECTIVES.items()),
        Row("scratch", "From scratch", SCRATCH),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, replicas=True),
        "paper": Scale(f"{CONFIG}:paper", seeds=1),
    },
    stages=(train, *stages()),
    columns=(PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, *COLUMNS),
    published="objectives.csv",
    claims="../claims.csv",
    competence=(
        Competence("span_corruption", "topic-1600.accuracy", "majority", margin=15, higher=True),
        Competence("span_corruption", "sentiment-1600.accuracy", "majority", margin=15, higher=True),
    ),
    verdicts={"pretrain-then-finetune": pretraining_helps},
    figures=(curves,),
)
