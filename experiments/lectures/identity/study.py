"""Whether a stack of dense layers learns the identity, with and without shortcuts: error by depth after equal budgets.

    attention-research reproduce lectures/identity --scale=cpu

The models learn the identity on random vectors of 16 numbers, and a near-identity to which 0.1 times a nonlinear
function is added (`fitting`, after He et al. 2016). They are stacks of 2 to 32 dense layers in blocks of two, plain or
with a shortcut around every block. All are initialized alike and trained by Adam for the same number of updates, each
at the best of the same learning rates. The study measures the error and the updates to a tolerance.
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
        Column("measure.identity", "error, identity", significant(2), better="lower"),
        Column("measure.steps", "updates to 1 %", fixed(0), better="lower"),
        Column("measure.near", "error, near-identity", significant(2), better="lower"),
        Column("measure.near_floor", "baseline, near-identity", significant(2)),
    ),
    claims="../../claims.csv",
    # The line is the tolerance, at the depth that is learned best.
    competence=(Competence("plain_relu", "measure.identity_errors", line=0.01),),
    verdicts=VERDICTS,
    figures=(draw_errors,),
    notes=(
        "Error: mean squared error of the deepest stack on new vectors, divided by the mean square of the target. The "
        "figure and the verdicts show all depths. Baseline: the error of the identity function on the near-identity. "
        "The updates are empty if the tolerance was not reached within the budget.",
        "A block has twice as many hidden units as the vector has numbers, so that every block can represent the "
        "identity.",
    ),
)  # fmt: skip
