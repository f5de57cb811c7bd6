"""Whether a stack of dense layers learns the identity, with and without shortcuts: error by depth after equal budgets.

    attention-research reproduce lectures/identity --scale=cpu

Random vectors of 16 numbers are to be given back as they are, and with a tenth of something else added
(`fitting`, after He et al. 2016): stacks of 2 to 32 dense layers in blocks of two, plain or with a
shortcut past every block, drawn alike and trained by Adam for as many updates, each at the best of the same learning
rates. The error and the updates to a tolerance.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence

from .figures import draw_errors
from .fitting import ACTIVATIONS, measure_fit
from .verdicts import ARMS, VERDICTS

SIZES = {
    "depths": (2, 4, 8, 16, 32),
    "width": 16,
    "rates": (0.001, 0.003, 0.01),
    "steps": 1000,
    "batch_size": 64,
    "tolerance": 0.01,
}
STUDY = Study(
    rows=tuple(
        Row(f"{arm}_{activation}", f"{arm}, {activation}", settings={"activation": activation, "residual": residual},
            scales=None if activation == "relu" else ("cpu", "gpu"))
        for activation in ACTIVATIONS for arm, residual in ARMS.items()
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "depths": (2, 4), "rates": (0.003,), "steps": 20}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "depths": (2, 4, 8, 16, 32, 64), "width": 64, "steps": 5000}),
    },
    stages=(measure(measure_fit),),
    columns=(
        Column("measure.identity", "error, deepest", significant(2), better="lower"),
        Column("measure.steps", "updates to 1 %", fixed(0), better="lower"),
        Column("measure.near", "near-identity", significant(2), better="lower"),
        Column("measure.near_floor", "the identity's there", significant(2)),
    ),
    claims="../../claims.csv",
    # The tolerance, at the depth that is learned best.
    competence=(Competence("plain_relu", "measure.identity_errors", line=0.01),),
    verdicts=VERDICTS,
    figures=(draw_errors,),
    notes=(
        "Mean squared error on fresh vectors as a share of the target's mean square, of the deepest stack; all depths "
        "are in the picture and the verdicts. No updates: the tolerance was not reached within the budget.",
        "A block's two layers have twice as many hidden units as the vector has numbers, with which the identity is "
        "in reach of every block.",
    ),
)  # fmt: skip
