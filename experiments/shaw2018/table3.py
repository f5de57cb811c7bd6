"""Shaw et al. 2018, Table 3: relative position vectors on keys, on values, on both, or on neither.

    attention-research reproduce shaw2018/table3 --scale=cpu

All rows have k = 16 and no positions in the embeddings. With neither, only the decoder's mask gives position
information.
"""

from __future__ import annotations

from attention_research.studies import Budget, Study
from attention_research.studies.competence import translates

from .figures import draw_rows
from .systems import COLUMNS, NO_POSITIONS, NOTES, attention, row, scales
from .verdicts import keys_or_values

STUDY = Study(
    rows=(
        row("both", "keys and values", attention("relative")),
        row("keys", "keys", attention("relative_keys"), smoke=True),
        row("values", "values", attention("relative_values"), smoke=True),
        row("none", "neither", NO_POSITIONS),
    ),
    scales=scales({"evaluation.split": "validation"}),
    columns=COLUMNS,
    budgets=(Budget("both", {"none": ()}),),
    published="table3.csv",
    compared={"evaluate.bleu": "BLEU En-De"},
    claims="../claims.csv",
    competence=translates("both"),
    verdicts={"relative-keys-or-values": keys_or_values},
    figures=(draw_rows,),
    notes=NOTES,
)
