"""Attention as a lookup that is soft, and as a pointer into a memory.

    attention-research reproduce lectures/soft_lookup --scale=cpu

Exact, in float64 (`analysis.selection_laws`): the soft lookup of a stored key becomes its value as scores sharpen, and
has the gradient that the hard lookup lacks. Trained (`analysis.recurrent_tasks`): the value of one of M keys, by
attention over the pairs, by the last state of a gated recurrent unit that read them, and by a table.
"""

from __future__ import annotations

from attention_research.analysis.recurrent_tasks import measure_pairs
from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence

from . import exact
from .soft_lookup_verdicts import LAWS, MEMORIES, VERDICTS, draw

SIZES = {**exact.DRAWS, "pairs": (1, 2, 4, 8, 16, 32), "symbols": 32, "width": 64, "steps": 1500, "batch_size": 64,
         "rate": 0.005}  # fmt: skip
STUDY = Study(
    rows=(
        *(exact.row(claim, name) for claim, name in LAWS.items()),
        *(Row(memory, name, settings={"memory": memory}, stages=(measure(measure_pairs),),
              scales=("cpu", "gpu") if memory == "rnn" else None) for memory, name in MEMORIES.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "pairs": (1, 4), "steps": 20}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "pairs": (1, 4, 16, 64, 256), "symbols": 256, "steps": 20_000}),
    },
    columns=(*exact.COLUMNS, Column("measure.most", "right of the most pairs, %", fixed(1, 100), better="higher")),
    claims="../claims.csv",
    competence=(Competence("attention", "measure.most", line=0.9, higher=True),),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(exact.NOTE, "The most pairs: 32 of 32 symbols; chance is 3.1 %."),
)  # fmt: skip
