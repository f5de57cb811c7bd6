"""Questions about pictures: text queries over image features against one pooled image vector.

    attention-research reproduce lectures/image_qa --scale=cpu

Collages of two to six coloured digits in nine cells (`data.collage_questions`): which digit is at a place, which has a
colour, how many there are. The words of the question read the map of a convolutional network by cross-attention, or
its mean. Right answers by form of question; how much weight lies on the cell that was asked for, and its maps.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from .measures import measure_questions
from .verdicts import VERDICTS, draw_maps

CONFIG = "configs/images/questions.py"
STUDY = Study(
    rows=(
        Row("cross_attention", "cross-attention"),
        Row("pooled", "one pooled vector", {"model.reader": {"kind": "pooled"}}),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 32}),
        "cpu": Scale(f"{CONFIG}:collages", seeds=3, jobs=2, settings={"examples": 2000}),
        "gpu": Scale(f"{CONFIG}:collages", {"training.steps": 20_000, "training.batch_size": 256}, seeds=3),
    },
    stages=(train, evaluate, measure(measure_questions)),
    columns=(
        PARAMETERS,
        LOSS,
        Column("measure.right", "right, %", fixed(1, 100), better="higher"),
        Column("measure.right_place", "by place", fixed(1, 100), better="higher"),
        Column("measure.right_colour", "by colour", fixed(1, 100), better="higher"),
        Column("measure.right_count", "counts", fixed(1, 100), better="higher"),
        Column("measure.mass", "weight on the asked cell, %", fixed(1, 100), better="higher"),
        Column("measure.best_head", "of the best head, %", fixed(1, 100), better="higher"),
    ),
    claims="../../claims.csv",
    # A picture has one right answer to a question.
    competence=(Competence("cross_attention", "measure.right", line=0.9, higher=True),),
    verdicts=VERDICTS,
    figures=(draw_maps,),
    notes=("Even weights have 11.1 % on a cell. Answers are the ten digits; 44 % of the counts are zero.",),
)
