"""Hard attention: choices with weights 0 and 1, which have no derivative, and how they can be trained.

    attention-research reproduce lectures/hard_attention --scale=cpu

Exact statements, in float64 (`laws.selection`): one-hot weights against softmax weights, and the gradients through an
argmax, through a sample and through soft attention. Sampled: the mean of REINFORCE's estimates against the gradient
computed by enumeration. Trained (`selection_task`): one lookup by soft attention, by argmax, and by REINFORCE with and
without a baseline.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed, significant
from attention_research.studies.competence import Competence

from ..laws import exact
from ..laws.selection import measure_reinforce
from .selection_task import measure_selection
from .verdicts import LAWS, VERDICTS, draw

MODES = {
    "soft": "soft",
    "argmax": "argmax",
    "reinforce": "REINFORCE",
    "reinforce_baseline": "REINFORCE, baseline",
}
SIZES = {**exact.DRAWS, "samples": 20_000, "steps": 2000, "batch_size": 64, "rates": (0.003, 0.01, 0.03), "target": 0.5}
STUDY = Study(
    rows=(
        *(exact.row(claim, name) for claim, name in LAWS.items()),
        Row("estimate", "REINFORCE's mean", stages=(measure(measure_reinforce),)),
        *(Row(mode, f"trained, {name}", settings={"mode": mode}, stages=(measure(measure_selection),),
              scales=None if mode == "reinforce_baseline" else ("cpu", "gpu")) for mode, name in MODES.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "samples": 200, "steps": 40, "rates": (0.01,)}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "items": 64, "address": 48, "steps": 20_000}),
    },
    columns=(
        *exact.COLUMNS,
        Column("measure.largest_z", "largest z", significant(2), better="lower"),
        Column("measure.accuracy", "accuracy, %", fixed(1, 100), better="higher"),
        Column("measure.steps", "updates to 0.5", fixed(0), better="lower"),
        Column("measure.of_squares", "variance / mean squared", significant(2), better="lower"),
    ),
    claims="../../claims.csv",
    competence=(Competence("soft", "measure.accuracy", line=0.9, higher=True, claims=("hard-is-hard-to-train",)),),
    untrained=("hard-needs-reinforce",),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        exact.NOTE,
        "Largest z: the largest difference between the mean of the estimates and the gradient, in standard errors. "
        "Accuracy: the class of one of 12 items; hard attention uses the argmax. The learning rate is the best of "
        "three on validation examples.",
        "Updates to 0.5: the number of updates until the mean cost over a twentieth of all updates is 0.5 nats or "
        "less. Variance / mean squared: of the gradient of the key projection before training.",
    ),
)  # fmt: skip
