"""Rows of Narang et al. 2021 as their papers describe them, where the released code differs.

    attention-research inspect --study=narang2021/as_written --scale=paper --json

These rows are not among the 52 of the table. The differences are:

- RMSNorm over all channels (release: over the first 52 of 768);
- two filters for all channels of a convolution (release: the setting is ignored, one filter for each channel);
- scores of the factorized Synthesizer as the product of its two factors (release: the same row for every query);
- halting in the Universal Transformer (release: 28 steps for all tokens);
- the decoder's expert capacity as configured (release: the setting is misspelled).
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
    # Nothing is trained; everything is counted at the published sizes.
    competence=(),
    columns=(PARAMETERS, STEPS_PER_SECOND, LOSS),
    counts=counts,
)
