"""Convolution as hard attention: weight 1 on what lies under a tap of the filter, 0 on the rest.

    attention-research reproduce lectures/convolution --scale=cpu

Exact, in float64 (`analysis.convolution_laws`): a K x K convolution is the sum of K^2 heads, each with a one-hot map at
its own offset and a value matrix of its own, and the limit of soft heads. Drawn: the nine maps of a 3 x 3 filter at one
pixel of a handwritten digit, and what they sum to.
"""

from __future__ import annotations

from attention_research.analysis.convolution_laws import measure_heads
from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, significant

from . import exact
from .convolution_figure import draw_heads

CLAIM = "convolution-is-hard-attention"
STUDY = Study(
    rows=(
        exact.row(CLAIM, "one-hot heads, summed"),
        Row("heads", "a 3 x 3 filter on a digit", stages=(measure(measure_heads),)),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={"draws": 1}),
        "cpu": Scale(seeds=3, jobs=2, settings=exact.DRAWS),
    },
    columns=(*exact.COLUMNS, Column("measure.difference", "on the digit, by", significant(2), spread=False)),
    claims="../claims.csv",
    competence=(),
    verdicts={CLAIM: exact.exact(CLAIM)},
    figures=(draw_heads,),
    notes=(exact.NOTE, "On the digit: float32, one filter."),
)
