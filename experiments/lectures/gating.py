"""Self-attention multiplies tokens with one another; a fixed linear mixing of positions cannot.

    attention-research reproduce lectures/gating --scale=cpu

Exact, in float64: second derivatives of a mixer's output across two tokens. Trained (`analysis.gating`): the product,
coordinate by coordinate, of a token's and its predecessor's features, by attention with four heads, by a learned matrix
over positions, and by the same with a gate.
"""

from __future__ import annotations

from attention_research.analysis.gating import measure_product
from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence

from . import exact
from .gating_verdict import CLAIM, ERROR, draw, gates

MIXERS = {"attention": "attention", "gated": "gated mixing", "ungated": "ungated mixing"}
SIZES = {**exact.DRAWS, "length": 8, "width": 8, "num_heads": 4, "steps": 3000, "batch_size": 64,
         "rates": (0.001, 0.003, 0.01)}  # fmt: skip
STUDY = Study(
    rows=(
        exact.row(CLAIM, "two tokens' second derivative"),
        *(Row(mixer, name, settings={"mixer": mixer}, stages=(measure(measure_product),),
              scales=None if mixer == "ungated" else ("cpu", "gpu")) for mixer, name in MIXERS.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "steps": 20, "rates": (0.01,)}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "steps": 30_000}),
    },
    columns=(
        *exact.COLUMNS,
        Column(ERROR, "error / variance", significant(2), better="lower"),
        Column("measure.parameters", "parameters", fixed(0)),
    ),
    claims="../claims.csv",
    # Nine tenths of the variance are explained.
    competence=(Competence("attention", "measure.error", line=0.1),),
    verdicts={CLAIM: gates},
    figures=(draw,),
    notes=(exact.NOTE, "Error: mean squared, on fresh sequences, at the best of three learning rates; 1 says nothing."),
)  # fmt: skip
