"""Questions about images: cross-attention from text to image features against one pooled image vector.

    attention-research reproduce lectures/image_qa --scale=cpu

The images are collages of two to six coloured digits in nine cells (`data.collage_questions`). Questions ask which
digit is at a place, which digit has a colour, or how many there are. The words of the question read the feature map of
a convolutional network by cross-attention, or read its mean. The study measures the share of correct answers by form of
question and the weight on the cell that holds the answer, and draws the attention maps.
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
        Column("measure.right", "accuracy, %", fixed(1, 100), better="higher"),
        Column("measure.right_place", "accuracy, place, %", fixed(1, 100), better="higher"),
        Column("measure.right_colour", "accuracy, colour, %", fixed(1, 100), better="higher"),
        Column("measure.right_count", "accuracy, count, %", fixed(1, 100), better="higher"),
        Column("measure.mass", "weight on the right cell, %", fixed(1, 100), better="higher"),
        Column("measure.best_head", "weight of the best head, %", fixed(1, 100), better="higher"),
    ),
    claims="../../claims.csv",
    # Each question about an image has exactly one correct answer.
    competence=(Competence("cross_attention", "measure.right", line=0.9, higher=True),),
    verdicts=VERDICTS,
    figures=(draw_maps,),
    notes=(
        "Uniform attention would give 11.1 % of its weight to a cell. Answers are the ten digits; 44 % of the counts "
        "are zero.",
    ),
)
