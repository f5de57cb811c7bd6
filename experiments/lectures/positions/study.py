"""Position encodings: their properties, drawn and measured, and their effect on trained models.

    attention-research reproduce lectures/positions --scale=cpu

The study has five parts:

- Encodings, without training: the sinusoid, a learned table before training, the index, the index divided by the
  length, and the bits of the index. Measured are the smallest distance of two of 10,000 steps, the variation of the
  distance at one offset over positions and lengths, and the largest value. For the sinusoid the study also measures
  wavelengths, dot products, and the rotation that corresponds to a shift, and compares it with a binary counter.
- Equivalent forms: concatenated positions with tied blocks, and positions in queries, keys and values.
- Layers: whether attention weights change when the whole text is shifted.
- Order: the Transformer of `lectures/scaling` copies letters (generated text) with positions in both stacks, in one, or
  in none.
- Language models of film reviews with each position scheme, with rows of 128 tokens (characters at `cpu`).
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, fixed, significant
from attention_research.studies.competence import Competence

from ...haviv2022.schemes import CHARACTERS, CONFIG, NONE, SCHEMES
from ..recall import measure_recall
from .codes import measure_codes
from .figures import draw_codes, draw_sinusoid
from .measures import measure_identities, measure_shift, measure_sinusoid
from .verdicts import VERDICTS

LARGE = ("cpu", "gpu")
CODES = {
    "sinusoidal": "sinusoid",
    "learned": "learned, untrained",
    "index": "index",
    "fraction": "index / length",
    "binary": "bits",
}
SHIFTED = {"absolute": "sinusoid added to embeddings", "relative": "Shaw, k = 16", "t5": "T5 bias", "rotary": "rotary",
           "alibi": "ALiBi"}  # fmt: skip

#: Schemes that are absolute or relative, fixed or learned. Concatenation has 2 D^2 more parameters; to match it, the
#: row `added` has 16 more hidden units in each of its four layers.
LANGUAGE: dict[str, tuple[str, dict[str, Any]]] = {
    "none": SCHEMES["none"],
    "sinusoidal": SCHEMES["sinusoidal"],
    "learned": SCHEMES["learned"],
    "alibi": SCHEMES["alibi"],
    "relative": ("relative (Shaw), k = 16", {**NONE, "model.self_attention": {"kind": "relative", "max_distance": 16}}),
    "concatenated": ("sinusoid, concatenated", {"model.positions.kind": "concatenated"}),
    "added": ("sinusoid, added, as many parameters", {"model.feed_forward.hidden_width": 272}),
    "in_attention": ("sinusoid in q, k, v of every layer", {**NONE, "model.self_attention": {"kind": "positional"}}),
}
COPYING = {
    "vocabulary_size": 32,
    "max_length": 48,
    "task": {"kind": "translation", "label_smoothing": 0.0},
    "data": {"kind": "copying", "max_delay": 40, "symbols": 8, "length": 3,
             "batching": {"kind": "buckets", "boundaries": (48,)}},
    "training.batch_size": 32,
    "training.learning_rate": 0.5,
    "training.schedule": {"kind": "noam", "warmup_steps": 200},
    "evaluation": {"kind": "bleu"},
    "decoding": {"kind": "greedy", "extra_length": 0},
}  # fmt: skip


def ordered(encoder: str, decoder: str) -> dict[str, Any]:
    """The overrides of a Transformer that copies, with the given positions in its encoder and decoder."""
    stack = lambda kind: {"unroll": True, "positions": {"kind": kind}}
    model = {"kind": "transformer", "num_layers": 2, "width": 64, "num_heads": 4, "dropout_rate": 0.0}
    model |= {"feed_forward": {"kind": "dense", "hidden_width": 128}}
    return {**COPYING, "model": {**model, "encoder": stack(encoder), "decoder": stack(decoder)}}


ORDER = {
    "both": ("positions in both stacks", "sinusoidal", "sinusoidal"),
    "encoder": ("positions in the encoder", "sinusoidal", "none"),
    "decoder": ("positions in the decoder", "none", "sinusoidal"),
    "nowhere": ("no positions", "none", "none"),
}
STEPS = {"training.steps": 1000, "training.checkpoint_every": 1000}
ROWS = (
    *(Row(f"code_{id}", name, settings={"scheme": id}, stages=(measure(measure_codes),)) for id, name in CODES.items()),
    Row("sinusoid", "the sinusoid itself", stages=(measure(measure_sinusoid),)),
    Row("identities", "tied, and in queries, keys and values", stages=(measure(measure_identities),)),
    *(Row(f"shift_{id}", f"shifted text, {name}", settings={"attention": id}, stages=(measure(measure_shift),))
      for id, name in SHIFTED.items()),
    *(Row(f"order_{id}", f"copying, {name}", {**ordered(encoder, decoder), **STEPS}, scales=LARGE,
          stages=(train, measure(measure_recall))) for id, (name, encoder, decoder) in ORDER.items()),
    *(Row(f"lm_{id}", f"language model, {name}", overrides,
          at={"smoke": overrides if id != "added" else {}, "cpu": {**CHARACTERS, **overrides}},
          scales=None if id == "concatenated" else LARGE, stages=(train, evaluate))
      for id, (name, overrides) in LANGUAGE.items()),
)  # fmt: skip
SIZES = {"code_width": 128, "code_length": 10_000, "lengths": (50, 500, 5000), "offsets": (1, 4, 16), "drawn": 64}
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={**SIZES, "code_length": 200, "lengths": (50, 90)}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, replicas=True, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.steps": 10_000}, seeds=3, settings=SIZES),
    },
    columns=(
        PARAMETERS,
        Column("measure.smallest_distance", "smallest distance", significant(2)),
        Column("measure.inconsistency", "variation of distance, %", fixed(1, 100)),
        Column("measure.largest", "largest value", significant(3)),
        Column("measure.moved", "change of weights", lambda value: f"{value:.0e}"),
        Column("measure.recall", "recall", fixed(2), better="higher"),
        LOSS,
        PERPLEXITY,
    ),
    claims="../../claims.csv",
    competence=(
        Competence(
            "order_both", "measure.recall", line=0.9, higher=True, claims=("order-needs-positions",), rows=("order_*",)
        ),
        Competence(
            "lm_learned",
            "evaluate.perplexity",
            "trigram",
            claims=("add-against-concatenate", "positions-in-queries-keys-values", "fixed-learned-absolute-relative"),
            rows=("lm_*",),
        ),
    ),
    untrained=("sinusoid-heat-map", "sinusoid-dot-product-map", "binary-counter-analogy"),
    verdicts=VERDICTS,
    figures=(draw_codes, draw_sinusoid),
    notes=(
        "Encodings have width 128. Smallest distance: between two of 10,000 steps. Variation of distance: that at "
        "offsets 1, 4 and 16 over positions and over texts of 50, 500 and 5,000 steps. Largest value: at 5,000 steps.",
        "Change of weights: the largest change of an attention weight when the text is shifted by 37 positions.",
        "Copying uses generated text; chance is 1/512. Perplexity is that of the characters of test reviews in "
        "rows of 128.",
    ),
)
