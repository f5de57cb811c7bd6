"""One vector for a whole picture against attention: by how many objects are in it, and in long descriptions.

    attention-research reproduce xu2015/bottleneck --scale=cpu

Collages of one to nine digits in nine cells: objects named right by their number, for one vector seen before the first
word, the same at every word, and soft attention. And of two to 36 digits in 36 cells, described in 9 to 179 words:
right words by their place in the description. (At `gpu` 64 cells and up to 299 words.)
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
#: 36 cells of 16 pixels; batches of 16 pictures.
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
        Column("measure.words", "right words, %", fixed(1, 100), better="higher"),
    ),
    claims="../claims.csv",
    # A collage has one right caption.
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
    notes=("A word is right if it stands at its place in the one right description.",),
)  # fmt: skip
