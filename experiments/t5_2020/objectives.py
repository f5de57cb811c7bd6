"""Raffel et al. 2020 ("T5"), Table 4: what an encoder-decoder is pre-trained to write, and how many labels help then.

    attention-research reproduce t5_2020/objectives --scale=cpu

The paper's cells are GLUE and SuperGLUE, ours accuracies after fine-tuning on few labels of two sets (`labels`), beside
the same fine-tunings of a model that was not pre-trained. Objectives see as many chunks of text, and differ in how much
of one the model reads and writes: "GFLOP" says what that costs. A loss is that of the row's own targets, so that losses
of different objectives are no order of them.
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
    """Every objective against scratch, at every number of labels of every task."""
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
