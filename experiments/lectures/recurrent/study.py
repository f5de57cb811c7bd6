"""Recurrent networks: what they see, hold and compute, exactly and trained.

    attention-research reproduce lectures/recurrent --scale=cpu

Exact, in float64 (`laws.recurrence`): no state knows what comes after it, with a second direction it does; the
gradient through time; parameters at any length; probabilities of strings as products of steps, and all strings' sum;
writing by feeding oneself. Trained (`tasks`, gated recurrent units): copying random symbols through
one state by its width and their number; tags that later symbols decide, read in one direction or in both.
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
    "tag_width": 32,
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
        "smoke": Scale(seeds=1, jobs=2, settings={**SIZES, "draws": 1, "lengths": (2, 4), "steps": 20}),
        "cpu": Scale(seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(seeds=3, settings={**SIZES, "lengths": (2, 4, 8, 16, 32, 64), "steps": 20_000}),
    },
    columns=(
        *exact.COLUMNS,
        Column("measure.longest", "right at the longest, %", fixed(1, 100), better="higher"),
        Column("measure.half", "below half from", fixed(0), better="higher"),
        Column("measure.accuracy", "tags right, %", fixed(1, 100), better="higher"),
    ),
    claims="../../claims.csv",
    # Copying: at the number of symbols that is copied best.
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
        "Copying: of 16 random symbols, each given the one before it; below half from: the shortest length of which "
        "less than half is right. A tag is the symbol three places later, of the last three places their own.",
    ),
)  # fmt: skip
