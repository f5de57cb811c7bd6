"""The causal mask: what it hides, how much time it saves, and what a model learns without it.

    attention-research reproduce lectures/masking --scale=cpu

Exact statements (`laws.masks`): future positions get no weight and no gradient; one masked pass equals computing every
step from its past; an encoder's self-attention equals that of a decoder whose mask hides nothing. Timed: one masked
pass against one pass for each step, by length. Trained: the Transformer of `lectures/positions` copies letters
(generated text) with and without the mask of its decoder, and the study compares the loss under teacher forcing with
the generated output. An encoder with a learned bias for each distance predicts hidden characters of film reviews from
both sides, and from preceding characters only.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PERPLEXITY, Column, fixed, significant
from attention_research.studies.competence import Competence

from ...haviv2022.nopos import masked
from ...haviv2022.schemes import CONFIG, LONGER, NONE
from ..laws import exact
from ..laws.masks import measure_truncation
from ..positions.study import STEPS, ordered
from ..recall import measure_recall
from .verdicts import LAWS, VERDICTS, draw

LARGE = ("cpu", "gpu")
#: Row -> name, the decoder's self-attention.
COPYING = {"masked": ("copying, masked", "standard"), "unmasked": ("copying, unmasked", "unmasked")}
#: Row -> name, the encoder's self-attention.
HIDDEN = {
    "two_sided": ("hidden characters, both sides", "relative_bias"),
    "one_sided": ("hidden characters, one side", "one_sided_relative_bias"),
}


def copying(kind: str) -> dict[str, Any]:
    """The overrides of the Transformer that copies, with the given self-attention in its decoder."""
    overrides = ordered("sinusoidal", "sinusoidal")
    decoder = {**overrides["model"]["decoder"], "self_attention": {"kind": kind}}
    return {**overrides, "model": {**overrides["model"], "decoder": decoder}}


SIZES = {**exact.DRAWS, "lengths": (16, 32, 64, 128), "width": 64, "num_heads": 4, "seconds": 0.5}
STUDY = Study(
    rows=(
        *(exact.row(claim, name) for claim, name in LAWS.items()),
        Row("truncation", "one pass against one a step", stages=(measure(measure_truncation),)),
        *(Row(id, name, {**copying(kind), **STEPS}, scales=LARGE, stages=(train, evaluate, measure(measure_recall)))
          for id, (name, kind) in COPYING.items()),
        *(Row(id, name, masked({**NONE, "model.self_attention": {"kind": kind}}), stages=(train, evaluate),
              scales=LARGE, at={"cpu": masked({**LONGER, **NONE, "model.self_attention": {"kind": kind}})})
          for id, (name, kind) in HIDDEN.items()),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2,
                       settings={**SIZES, "draws": 1, "lengths": (4, 8), "seconds": 0.0}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, replicas=True, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.steps": 10_000}, seeds=3, settings=SIZES),
    },
    columns=(
        *exact.COLUMNS,
        Column("measure.ratio", "time ratio", significant(2)),
        LOSS,
        Column("measure.recall", "correct outputs, %", fixed(1, 100), better="higher"),
        PERPLEXITY,
    ),
    claims="../../claims.csv",
    competence=(
        Competence(
            "masked", "measure.recall", line=0.9, higher=True, claims=("unmasked-decoder-cheats",), rows=("masked",)
        ),
        Competence(
            "two_sided",
            "evaluate.perplexity",
            "trigram",
            claims=("encoder-is-unmasked-decoder",),
            rows=("two_sided", "one_sided"),
        ),
    ),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        exact.NOTE,
        "Time ratio: the time of one pass for each of 128 steps over its past, divided by the time of one masked pass.",
        "The loss of a copying row is the training loss of the last updates, with teacher forcing. Perplexity is that "
        "of hidden characters. The seeds of a trained row were trained together on the same batches.",
    ),
)  # fmt: skip
