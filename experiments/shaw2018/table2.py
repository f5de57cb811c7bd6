"""Shaw et al. 2018, Table 2: BLEU by clipping distance.

    attention-research reproduce shaw2018/table2 --scale=cpu

Offsets j - i are clipped at -k and k, so that a layer has 2k + 1 vectors for keys and as many for values. With k = 0
all keys have the same vector: there are no positions but what the decoder's mask tells. A row of text holds at most 64
pieces at `cpu` and `gpu`, so that there k = 64 and k = 256 clip nothing and differ by chance alone.
"""

from __future__ import annotations

from attention_research.studies import Budget, Study
from attention_research.studies.competence import Competence

from .figures import draw_clipping
from .systems import COLUMNS, NOTES, attention, row, scales
from .verdicts import DISTANCES, clipping

STUDY = Study(
    rows=tuple(row(f"k_{k}", f"k = {k}", attention("relative", k), smoke=k in (0, 2)) for k in DISTANCES),
    scales=scales({"evaluation.split": "validation"}),
    columns=COLUMNS,
    budgets=(Budget("k_16"),),
    published="table2.csv",
    compared={"evaluate.bleu": "BLEU En-De"},
    claims="../claims.csv",
    competence=(Competence("k_16", "evaluate.perplexity", "trigram"),),
    verdicts={"relative-clipping-distance": clipping},
    figures=(draw_clipping,),
    notes=NOTES,
)
