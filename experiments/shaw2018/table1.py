"""Shaw et al. 2018, Table 1: relative position representations against sinusoids, at two sizes.

    attention-research reproduce shaw2018/table1 --scale=cpu
    attention-research inspect   --study=shaw2018/table1 --scale=paper    # parameters; allocates nothing

The relative rows have k = 16 in the base model and 8 in the big model, on keys and values of every self-attention, and
no positions in the embeddings. The rows `both` also add the sinusoids. The paper says that this did not help further,
without giving a number. They are not run at `cpu`.
"""

from __future__ import annotations

from attention_research.studies import Budget, Study
from attention_research.studies.competence import translates

from .figures import draw_rows
from .systems import COLUMNS, NOTES, attention, row, scales
from .verdicts import relative_helps

#: The rows that are run at `smoke`.
SMALL = (("base", "absolute"), ("base", "relative"), ("big", "relative"))
ROWS = tuple(
    row(
        f"{size}_{positions}",
        f"{size}, {name}",
        overrides,
        big=size == "big",
        smoke=(size, positions) in SMALL,
        cpu=positions != "both",
    )
    for size, k in (("base", 16), ("big", 8))
    for positions, name, overrides in (
        ("absolute", "absolute", {}),
        ("relative", f"relative, k = {k}", attention("relative", k)),
        ("both", "both", {"model.self_attention": {"kind": "relative", "max_distance": k}}),
    )
)
STUDY = Study(
    rows=ROWS,
    scales=scales({}),
    columns=COLUMNS,
    budgets=(Budget("base_absolute", {"base_relative": (), "big_absolute": (), "big_relative": ()}),),
    published="table1.csv",
    compared={"evaluate.bleu": "BLEU En-De"},
    claims="../claims.csv",
    competence=translates("base_relative"),
    verdicts={"relative-positions-help": relative_helps},
    figures=(draw_rows,),
    notes=NOTES,
)
