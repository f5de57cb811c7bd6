"""Rows of Narang et al. 2021 as their papers describe them, where the released code ran something else.

    attention-research inspect --study=narang2021/as_written --scale=paper --json

Outside the table's 52. What differs: RMSNorm over all channels (the release: the first 52 of 768); two filters for all
channels of a convolution (the release drops the setting: one a channel); the factorized Synthesizer's scores as the
product of its two factors (the release: the same row for every query); halting in the Universal Transformer (the
release: 28 steps for all); the decoder's expert capacity as configured (the release misspells the setting).
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import LOSS, PARAMETERS, STEPS_PER_SECOND

from .rows import as_written
from .sizes import PAPER, SMOKE
from .table1 import CONFIG, counts, slug

SIZED = {"paper": as_written(PAPER), "smoke": as_written(SMOKE)}

STUDY = Study(
    rows=tuple(
        Row(f"{slug(name)}-as-written", f"{name}, as written", at={scale: rows[name] for scale, rows in SIZED.items()})
        for name in SIZED["paper"]
    ),
    scales={"smoke": Scale(f"{CONFIG}:smoke", seeds=1), "paper": Scale(f"{CONFIG}:paper", seeds=5)},
    # Counted at the published sizes.
    competence=(),
    columns=(PARAMETERS, STEPS_PER_SECOND, LOSS),
    counts=counts,
)
