"""One vector for a whole image against attention, by the number of objects and for long descriptions.

    attention-research reproduce xu2015/bottleneck --scale=cpu

On collages of one to nine digits in nine cells, the study measures the share of correctly named objects by the number
of objects: for one image vector before the first word, the same vector at every word, and soft attention. On collages
of two to 36 digits in 36 cells, described in 9 to 179 words, it measures correct words by their position in the
description (at `gpu`: 64 cells and up to 299 words).
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence

from .bottleneck_verdicts import VERDICTS, draw_index, draw_objects
from .caption_measures import measure_captions
from .captioners import CONFIG, EVERY, FREE, LARGE, ONCE

KINDS = {"once": ("one vector, once", ONCE), "every_word": ("one vector, every word", EVERY),
         "attention": ("soft attention", FREE)}  # fmt: skip
MANY: dict[str, Any] = {"data.max_objects": 9, "max_length": 45}
#: 36 cells of 16 pixels, and batches of 16 images.
LONG: dict[str, Any] = {
    "side": 96, "data.grid": 6, "data.min_objects": 2, "data.max_objects": 36, "data.clutter": 0.0, "max_length": 180,
    "data.train_examples": 4000, "data.held_out": 200, "training.batch_size": 16, "evaluation.batch_size": 16,
    "decoding": {"kind": "greedy"},
}  # fmt: skip
LONGER = {**LONG, "side": 128, "data.grid": 8, "data.max_objects": 60, "max_length": 300, "data.train_examples": 20_000}
STUDY = Study(
    rows=(
        *(Row(id, f"{name}, up to nine", {**MANY, **overrides},
              at={"smoke": {**overrides, "data.max_objects": 2, "max_length": 20},
                  "cpu": {**MANY, **overrides, "training.steps": 3000}},
              scales=LARGE if id == "every_word" else None)
          for id, (name, overrides) in KINDS.items()),
        *(Row(f"{id}_long", f"{name}, long", {**LONG, **overrides}, at={"gpu": {**LONGER, **overrides}}, scales=LARGE)
          for id, (name, overrides) in KINDS.items() if id != "once"),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 16}),
        "cpu": Scale(f"{CONFIG}:collages", {"model.dropout_rate": 0.0}, seeds=3, jobs=2, settings={"examples": 500}),
        "gpu": Scale(f"{CONFIG}:collages", {"training.steps": 20_000}, seeds=3, settings={"examples": 2000}),
    },
    stages=(train, evaluate, measure(measure_captions)),
    columns=(
        PARAMETERS,
        LOSS,
        Column("evaluate.bleu_4", "BLEU-4", fixed(1), better="higher"),
        Column("measure.named", "objects named, %", fixed(1, 100), better="higher"),
        Column("measure.words", "correct words, %", fixed(1, 100), better="higher"),
    ),
    claims="../claims.csv",
    # A collage has exactly one correct caption.
    competence=(
        Competence(
            "attention",
            "measure.named",
            line=0.9,
            higher=True,
            claims=("caption-bottleneck",),
            rows=("once", "every_word", "attention"),
        ),
        Competence(
            "attention_long",
            "measure.words",
            line=0.9,
            higher=True,
            claims=("caption-hundreds-of-words",),
            rows=("*_long",),
        ),
    ),
    verdicts=VERDICTS,
    figures=(draw_objects, draw_index),
    notes=("A word is correct if it is at its position in the only correct description.",),
)  # fmt: skip
