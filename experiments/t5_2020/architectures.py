"""Raffel et al. 2020 (T5), Table 2: encoder-decoders, a language model and a prefix language model.

    attention-research reproduce t5_2020/architectures --scale=cpu

Each architecture is pre-trained by denoising (span corruption) and as a language model, with a prefix as the input if
the architecture has one (section 3.2.3). It is then fine-tuned on few labels (`labels`) and compared with the same
fine-tunings from scratch. An encoder-decoder has twice the parameters of one stack with the same number of layers, at
about the same compute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from attention_research.config import load
from attention_research.studies import Row, Scale, Study, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, STEPS_PER_SECOND
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict

from .labels import COLUMNS, SCRATCH, against_scratch, curves, stages

CONFIG = "configs/text_to_text/t5_2020.py"
SCALES = ("smoke", "cpu", "paper")
PREFIX, WHOLE = ({"data.objective": {"kind": kind}} for kind in ("prefix_language_model", "language_model"))
#: The row of each architecture without pre-training -> the pre-trained rows.
FROM_SCRATCH = {
    "encoder_decoder_scratch": ("encoder_decoder", "encoder_decoder_lm"),
    "language_model_scratch": ("language_model", "language_model_lm"),
    "prefix_lm_scratch": ("prefix_lm", "prefix_lm_lm"),
}


@functools.cache
def base(scale: str) -> dict[str, Any]:
    """The section `model` of the config."""
    return load(f"{CONFIG}:{scale}").given["model"]


def one_stack(kind: str, scale: str) -> dict[str, Any]:
    """A language model of the size of the decoder, without attention to an encoder."""
    common = {name: value for name, value in base(scale).items() if name not in ("encoder", "decoder")}
    return {"model": {**common, "kind": "language_model", "decoder": {"kind": kind}}}


def half(scale: str) -> dict[str, Any]:
    """Half the layers in each stack."""
    return {"model.num_layers": base(scale)["num_layers"] // 2}


def row(
    id: str,
    name: str,
    change: Callable[[str], Mapping[str, Any]] | None = None,
    also: Mapping[str, Any] | None = None,
) -> Row:
    """A row with the changes that `change` gives for each scale, and those of `also` at every scale."""
    return Row(id, name, at={scale: {**(change(scale) if change else {}), **(also or {})} for scale in SCALES})


def helped(results: Results) -> Verdict:
    """Each architecture, pre-trained by either objective, is better than the same architecture from scratch."""
    return against_scratch(results, {row: scratch for scratch, rows in FROM_SCRATCH.items() for row in rows})


causal, prefix = (functools.partial(one_stack, kind) for kind in ("causal", "prefix"))
STUDY = Study(
    rows=(
        row("encoder_decoder", "Encoder-decoder, denoising"),
        row(
            "encoder_decoder_shared",
            "Enc-dec, one set of weights, denoising",
            also={"model.kind": "shared_transformer"},
        ),
        row("encoder_decoder_half", "Enc-dec, half the layers, denoising", half),
        row("language_model", "Language model, denoising", causal),
        row("prefix_lm", "Prefix LM, denoising", prefix),
        row("encoder_decoder_lm", "Encoder-decoder, LM", also=PREFIX),
        row("language_model_lm", "Language model, LM", causal, also=WHOLE),
        row("prefix_lm_lm", "Prefix LM, LM", prefix, also=PREFIX),
        row("encoder_decoder_scratch", "Encoder-decoder from scratch", also=SCRATCH),
        row("language_model_scratch", "Language model from scratch", causal, also=SCRATCH),
        row("prefix_lm_scratch", "Prefix LM from scratch", prefix, also=SCRATCH),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, replicas=True),
        "paper": Scale(f"{CONFIG}:paper", seeds=1),
    },
    stages=(train, *stages()),
    columns=(PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, *COLUMNS),
    published="architectures.csv",
    claims="../claims.csv",
    competence=(
        Competence("encoder_decoder", "topic-1600.accuracy", "majority", margin=15, higher=True),
        Competence("encoder_decoder", "sentiment-1600.accuracy", "majority", margin=15, higher=True),
    ),
    verdicts={"pretraining-architectures": helped},
    figures=(curves,),
)
