"""What codes of positions promise, drawn, measured and trained.

    attention-research reproduce lectures/positions --scale=cpu

Codes (nothing is trained): sinusoid, a learned table before training, the bare index, the index divided by the length,
the index's bits; how near two steps come within 10,000, how far the distance at one offset moves with place and length,
how large values grow. The sinusoid: wavelengths, dot products, the rotation that a shift is, the bits of a counter
beside it. Identities: concatenated positions with tied blocks, positions in queries, keys and values. Layers: whether
weights move when the whole text is shifted. Order: the Transformer of `lectures/scaling` copies letters (generated
text) with positions in both stacks, one, or none. Language models of film reviews, 128 tokens a row, by scheme.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, fixed, significant
from attention_research.studies.competence import Competence

from ...haviv2022.schemes import CONFIG, NONE, SCHEMES
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

#: Absolute or relative, fixed or learned; concatenated has 2 D^2 parameters more, for which the added sinusoid has 16
#: hidden units more in each of its four layers.
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
    """A Transformer that copies, with these positions in its stacks."""
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
    *(Row(f"lm_{id}", f"language model, {name}", overrides, at={"smoke": overrides if id != "added" else {}},
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
        Column("measure.smallest_distance", "nearest codes", significant(2)),
        Column("measure.inconsistency", "distance moves, %", fixed(1, 100)),
        Column("measure.largest", "largest value", significant(3)),
        Column("measure.moved", "weights move by", lambda value: f"{value:.0e}"),
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
        "Codes of width 128: the nearest two of 10,000 steps; how far the distance at offsets 1, 4 and 16 moves over "
        "places and texts of 50, 500 and 5,000 steps; the largest value at 5,000.",
        "Copying is generated text; chance is 1 in 512. Perplexities are of test reviews in rows of 128 tokens.",
    ),
)
