"""The general attention layer: its exact properties, and the effect of its projections and its score.

    attention-research reproduce lectures/attention_layer --scale=cpu

Exact: sixteen statements, each checked in float64 on random instances against sums written out in NumPy
(`laws.attention`, `laws.layers`). Where possible the same difference is also measured where the statement does not
apply. Trained: a lookup whose keys have to be transformed before they match (`lookup_ladder`), by score and by which of
queries, keys and values have a learned matrix.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence

from ..laws import exact
from .lookup_ladder import measure_lookup
from .verdicts import LAWS, VERDICTS, draw

PROJECTIONS = {
    "none": "raw inputs",
    "keys": "keys projected",
    "keys_values": "keys and values projected",
    "all": "queries too",
}
SCORES = {
    "dot": "dot product",
    "scaled_dot": "scaled dot product",
    "cosine": "cosine",
    "cosine_temperature": "cosine, learned temperature",
    "additive": "additive",
}
#: Score -> the sets of projections with which it is trained.
LADDERS = {
    "dot": tuple(PROJECTIONS),
    "scaled_dot": ("none", "all"),
    "cosine": ("none", "all"),
    "cosine_temperature": ("none", "all"),
    "additive": ("none", "keys_values"),
}
SIZES = {**exact.DRAWS, "steps": 1000, "batch_size": 128, "rates": (0.003, 0.01, 0.03)}
STUDY = Study(
    rows=(
        *(exact.row(claim, name) for claim, name in LAWS.items()),
        *(Row(f"{score}_{projections}", f"{SCORES[score]}, {PROJECTIONS[projections]}",
              settings={"score": score, "projections": projections}, stages=(measure(measure_lookup),),
              scales=None if (score, projections) == ("dot", "keys") else ("cpu", "gpu"))
          for score, ladder in LADDERS.items() for projections in ladder),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "steps": 20, "rates": (0.01,)}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "items": 64, "address": 48, "steps": 10_000}),
    },
    columns=(
        *exact.COLUMNS,
        Column("measure.accuracy", "accuracy, %", fixed(1, 100), better="higher"),
        Column("measure.loss", "loss", significant(2), better="lower"),
        Column("measure.parameters", "parameters", fixed(0), spread=False),
    ),
    claims="../../claims.csv",
    # The cosine is left out: a claim predicts that it fails.
    competence=(
        Competence("dot_all", "measure.accuracy", line=0.9, higher=True, rows=("dot_*", "scaled_dot_*", "additive_*")),
    ),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        exact.NOTE,
        "Accuracy: how often the class, one of 8, of the queried item, one of 12, is right; chance is 12.5 %. The "
        "learning rate is the best of three by validation loss.",
    ),
)  # fmt: skip
