"""Recurrent networks: what their states depend on, how much they store, and exact properties.

    attention-research reproduce lectures/recurrent --scale=cpu

Exact statements, in float64 (`laws.recurrence`): a state does not depend on later inputs, but with a second direction
it does; the gradient through time equals finite differences; the number of parameters does not depend on the length;
the probability of a string is the product over steps, and the probabilities of all strings sum to 1; a generated text
has the same probability in generation and in scoring. Trained with gated recurrent units (`tasks`): copying random
symbols through one state, by the width of the state and the number of symbols; and tagging where later symbols
determine the tag, in one direction or in both.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence

from ..laws import exact
from .tasks import measure_copying, measure_tagging
from .verdicts import LAWS, VERDICTS, draw

WIDTHS = (8, 16, 32, 64)
DIRECTIONS = {1: "one direction", 2: "both directions"}
LARGE = ("cpu", "gpu")
SIZES = {
    **exact.DRAWS,
    "lengths": (2, 4, 8, 12, 16, 24),
    "symbols": 16,
    "steps": 1500,
    "batch_size": 64,
    "rate": 0.01,
    "tag_width": 64,
    "tag_steps": 3000,
    "ahead": 3,
    "tag_length": 12,
}
STUDY = Study(
    rows=(
        *(exact.row(claim, name) for claim, name in LAWS.items()),
        *(Row(f"copying_{width}", f"copying, a state of {width}", settings={"width": width},
              stages=(measure(measure_copying),), scales=None if width == 8 else LARGE) for width in WIDTHS),
        *(Row(f"tagging_{number}", f"tagging, {name}", settings={"directions": number},
              stages=(measure(measure_tagging),), scales=LARGE) for number, name in DIRECTIONS.items()),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "lengths": (2, 4), "steps": 20,
                                                  "tag_steps": 20}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "lengths": (2, 4, 8, 16, 32, 64), "steps": 20_000,
                                 "tag_steps": 20_000}),
    },
    columns=(
        *exact.COLUMNS,
        Column("measure.longest", "accuracy at longest, %", fixed(1, 100), better="higher"),
        Column("measure.half", "first length below half", fixed(0), better="higher"),
        Column("measure.accuracy", "tag accuracy, %", fixed(1, 100), better="higher"),
    ),
    claims="../../claims.csv",
    # For copying, the accuracy at the number of symbols that is copied best.
    competence=(
        Competence(
            "copying_64",
            "measure.accuracies",
            line=0.9,
            higher=True,
            claims=("rnn-one-state-capacity",),
            rows=("copying_*",),
        ),
        Competence(
            "tagging_2",
            "measure.accuracy",
            line=0.9,
            higher=True,
            claims=("bidirectional-sees-later-steps",),
            rows=("tagging_*",),
        ),
    ),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        exact.NOTE,
        "Copying: random symbols out of 16, with teacher forcing. First length below half: the shortest length with an "
        "accuracy below one half. A tag is the symbol three positions later; for the last three positions it is their "
        "own symbol.",
    ),
)  # fmt: skip
