"""Shaw et al. 2018, Table 2: BLEU by clipping distance.

    attention-research reproduce shaw2018/table2 --scale=cpu

Offsets j - i are clipped to [-k, k], so a layer has 2k + 1 vectors for keys and as many for values. With k = 0 all keys
have the same vector, and only the decoder's mask gives position information. At `cpu` and `gpu` a row of text has at
most 64 word pieces, so k = 64 and k = 256 clip nothing and differ only by chance. `cpu` has k = 0, 2, 4 and 16.
"""

from __future__ import annotations

from attention_research.studies import Budget, Study
from attention_research.studies.competence import translates

from .figures import draw_clipping
from .systems import COLUMNS, NOTES, attention, row, scales
from .verdicts import DISTANCES, clipping

#: The distances that are run at `cpu`, where rows have at most 64 pieces.
CPU = (0, 2, 4, 16)
STUDY = Study(
    rows=tuple(row(f"k_{k}", f"k = {k}", attention("relative", k), smoke=k in (0, 2), cpu=k in CPU) for k in DISTANCES),
    scales=scales({"evaluation.split": "validation"}),
    columns=COLUMNS,
    budgets=(Budget("k_16"),),
    published="table2.csv",
    compared={"evaluate.bleu": "BLEU En-De"},
    claims="../claims.csv",
    competence=translates("k_16"),
    verdicts={"relative-clipping-distance": clipping},
    figures=(draw_clipping,),
    notes=NOTES,
)
