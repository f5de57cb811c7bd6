"""Efficient attention as models and contexts grow: loss gaps to full attention by size, and loss by context length.

    attention-research reproduce lectures/efficient_at_scale --scale=cpu

The data are characters of film reviews at `cpu` (`measures`). At four sizes, the study trains causal language models
with full attention, a sliding window, linear attention and Performer, and masked language models with full attention
and Linformer, which has no causal form. It also trains causal models of one size with contexts from 32 to 512 tokens,
all with the same compute. Models are trained by `training.fitting`: a row is one kind of attention, and its
sizes and contexts are lists.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attention_research.data.objectives.masked_tokens import MaskedText
from attention_research.data.tokens import TokenArray
from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence
from attention_research.tasks.floors.cloze import cloze_perplexity
from attention_research.tasks.floors.kneser_ney import KneserNey
from attention_research.tokens import PAD

from .figures import draw_contexts, draw_gaps
from .measures import measure_contexts, measure_sizes, open_text
from .models import CAUSAL, HIDDEN
from .verdicts import NAMES, VERDICTS

CPU = {
    "text": "reviews/imdb",
    "vocabulary_size": 176,
    "tokenizer": "characters",
    "model": {"head_width": 16, "cheap": {"window": 16, "features": 32, "rank": 32}},
    "scales": ((1, 16), (2, 32), (2, 64), (2, 96)),
    "length": 128,
    "batch_tokens": 1024,
    "steps": 2000,
    "rate": 0.003,
    "tested": 32_768,
    "contexts": (32, 128, 512),
    "context_size": (2, 64),
    "compute": 1.2e12,
}
SMOKE = {**CPU, "text": "news/bbc", "scales": ((1, 16), (2, 16)), "length": 16, "batch_tokens": 32, "steps": 2,
         "tested": 256, "contexts": (8, 16), "context_size": (1, 16), "compute": 1e7}  # fmt: skip
GPU = {
    **CPU,
    "vocabulary_size": 4096,
    "tokenizer": "bpe",
    "model": {"head_width": 64, "cheap": {"window": 64, "features": 128, "rank": 128}},
    "scales": ((2, 64), (4, 128), (6, 256), (8, 512)),
    "length": 512,
    "batch_tokens": 16_384,
    "steps": 5000,
    "rate": 0.001,
    "tested": 262_144,
    "contexts": (64, 256, 1024, 4096),
    "context_size": (6, 256),
    "compute": 1e15,
}


def measure_trigram(
    *, text: str, vocabulary_size: int, tokenizer: str, tested: int, two_sided: bool = False, **_: Any
) -> dict[str, float]:
    """Returns "largest" and "longest", both the loss in nats of an interpolated Kneser-Ney trigram model on the test
    tokens of the models.

    The trigram model is fitted on the training split. With `two_sided` it predicts hidden tokens from both sides
    (`tasks.floors.cloze`), as masked models do. It is a row of its own because no baselines are computed for models
    that are trained inside a measurement.
    """
    there = open_text(text, vocabulary_size, tokenizer)
    model, tokens = KneserNey(TokenArray.join([there.train]), there.size, order=3), there.test[: tested + 1]
    if not two_sided:
        loss = math.log(model.perplexity(TokenArray.join([tokens])))
        return {"largest": loss, "longest": loss}
    hidden, mask = np.random.default_rng(0).random(len(tokens)) < HIDDEN, there.size - 1
    read = TokenArray.join([np.where(hidden, mask, tokens)])
    return {"largest": math.log(cloze_perplexity(model, MaskedText(read, np.where(hidden, tokens, PAD), mask)))}


STUDY = Study(
    rows=tuple(
        Row(kind, name, settings={"kind": kind}, scales=None if kind == "performer" else ("cpu", "gpu"),
            stages=(measure(measure_sizes), *((measure(measure_contexts),) if kind in CAUSAL else ())))
        for kind, name in NAMES.items()
    )
    + (
        Row("trigram", "trigram (Kneser-Ney)", stages=(measure(measure_trigram),), scales=("cpu", "gpu")),
        Row("trigram_masked", "trigram on both sides", stages=(measure(measure_trigram, two_sided=True),),
            scales=("cpu", "gpu")),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings=SMOKE),
        "cpu": Scale(seeds=3, jobs=2, settings=CPU),
        "gpu": Scale(seeds=3, settings=GPU),
    },
    columns=(
        Column("measure.largest", "loss, largest model", fixed(3), better="lower"),
        Column("measure.longest", "loss, longest context", fixed(3), better="lower"),
    ),
    claims="../../claims.csv",
    competence=(
        Competence(
            "full",
            "measure.largest",
            "trigram",
            claims=("cheaper-worse-at-scale",),
            rows=CAUSAL,
        ),
        # With the longest context, only the sliding window learns its task within the compute.
        Competence(
            "window",
            "measure.longest",
            "trigram",
            claims=("longer-contexts-unlock",),
            rows=CAUSAL,
        ),
        Competence(
            "full_masked",
            "measure.largest",
            "trigram_masked",
            claims=("cheaper-worse-at-scale",),
            rows=("full_masked", "linformer"),
        ),
    ),
    verdicts=VERDICTS,
    figures=(draw_gaps, draw_contexts),
    notes=(
        "Loss: nats per character of test reviews; for masked models, per masked character (15 %). At the scale cpu, a "
        "model of width 16 to 96 sees 2 million characters. This says nothing about large models; the scale gpu is "
        "meant for them but has not been run.",
        "By context: all contexts have the same compute (1.2e12 FLOPs at cpu) and the same test text, cut into rows of "
        "the context length. The early tokens of a row therefore have little context.",
        "The trigram model is fitted on the training reviews and sees two characters of context, for masked models on "
        "both sides. It is the baseline that a model must beat.",
    ),
)  # fmt: skip
