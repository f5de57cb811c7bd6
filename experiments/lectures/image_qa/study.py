"""Questions about images: cross-attention from text to image features against one pooled image vector.

    attention-research reproduce lectures/image_qa --scale=cpu

The images are collages of two to six coloured digits in nine cells (`data.collage_questions`). Questions ask which
digit is at a place, which digit has a colour, or how many there are. The words of the question read the feature map of
a convolutional network by cross-attention, or read its mean. The network is trained first as part of a captioning model
of similar pictures (`xu2015/table1`, soft attention), and is trained further on the questions. The study measures the
share of correct answers by form of question and the weight on the cell that holds the answer, and draws the attention
maps.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from .measures import measure_questions
from .settings import CAPTIONS, QUESTIONS, questions
from .verdicts import VERDICTS, draw_maps

CONFIG = "configs/images/captions.py"


def row(id: str, name: str, **reader: Any) -> Row:
    """A row whose model of questions has the given `reader`."""
    return Row(id, name, stages=(train, questions(reader), measure(measure_questions, of=QUESTIONS)))


STUDY = Study(
    rows=(
        row("cross_attention", "cross-attention"),
        row("pooled", "one pooled vector", reader={"kind": "pooled"}),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 32}),
        "cpu": Scale(f"{CONFIG}:collages", CAPTIONS, seeds=3, settings={"examples": 2000}),
        "gpu": Scale(f"{CONFIG}:collages", CAPTIONS, seeds=3),
    },
    columns=(
        Column("measure.parameters", "parameters", PARAMETERS.text, spread=False),
        Column("questions.train_loss", "loss", LOSS.text, better="lower"),
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
