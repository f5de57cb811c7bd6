"""Hard attention: zero-one choices, which have no derivative, and what it takes to learn them.

    attention-research reproduce lectures/hard_attention --scale=cpu

Exact, in float64 (`laws.selection`): one-hot against shares, the gradient through an argmax and through a
sample, the soft one's. Sampled: the mean of REINFORCE's estimates against the enumerated gradient. Trained
(`selection_task`): one lookup by soft attention, by argmax, by REINFORCE with and without a baseline.
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
        Column("measure.largest_z", "errors off", significant(2), better="lower"),
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
        "Errors off: the largest difference of the estimates' mean from the gradient, in standard errors. Accuracy: "
        "the class of one of 12 items, by the argmax where attention is hard, at the best of three learning rates by "
        "validation examples.",
        "Updates to 0.5: until a twentieth of them has a cost of 0.5 nats or less. Variance: of the key projection's "
        "gradient before training.",
    ),
)  # fmt: skip
