"""Xu et al. 2015, the figures: where soft and hard attention attend for each word, and whether it is the right place.

    attention-research reproduce xu2015/figures --scale=cpu

The models are those of `xu2015/table1` on collages, where the cell of every word is known. The figure shows held-out
images with the attention mask of each word. Measured are how often the largest weight is in the cell of the word, and
the weight in that cell, compared with uniform weights and with the middle; and how far attention moves from word to
word, within an object, between objects, and for another order of the words.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import LOSS, Column, fixed
from attention_research.studies.competence import Competence

from .captioners import CONFIG, DRAWN, LARGE, LOOKED, RECIPE, SETTINGS, captioners
from .figures_drawn import draw_gaze, draw_strips
from .figures_verdicts import VERDICTS

STUDY = Study(
    rows=tuple(
        Row(id, name, overrides, scales=LARGE if id == "stochastic" else None)
        for id, (name, overrides) in captioners().items()
        if id in DRAWN
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 16, "gradients": 2}),
        "cpu": Scale(f"{CONFIG}:collages", RECIPE, seeds=3, settings=SETTINGS),
        "gpu": Scale(f"{CONFIG}:collages", {**RECIPE, "training.steps": 20_000}, seeds=3, settings={"examples": 2000}),
    },
    stages=LOOKED,
    columns=(
        LOSS,
        Column("evaluate.bleu_4", "BLEU-4", fixed(1), better="higher"),
        Column("measure.pointing", "largest weight in right cell, %", fixed(1, 100), better="higher"),
        Column("measure.mass", "weight in right cell, %", fixed(1, 100), better="higher"),
        Column("measure.centre", "always the middle cell, %", fixed(1, 100), spread=False),
        Column("measure.moves_within", "moves within an object", fixed(2)),
        Column("measure.moves_between", "moves between objects", fixed(2)),
        Column("measure.moves_shuffled", "moves, shuffled words", fixed(2)),
    ),
    claims="../claims.csv",
    # A collage has exactly one correct caption; nine of ten words have to be correct.
    competence=(Competence("soft", "evaluate.bleu_1", line=90, higher=True),),
    verdicts=VERDICTS,
    figures=(draw_strips, draw_gaze),
    notes=("Uniform attention gives 11.1 % to a cell. Moves are distances between centres of attention, in cells.",),
)
