"""Attention heads: whether they differ, specialise and can be removed, and how far they attend in each layer.

    attention-research reproduce lectures/heads --scale=cpu

The row `blanks` uses generated sentences with three blanks (`data.blanks`). Each blank is decided by a known word: a
verb by its subject, with phrases between them; a pronoun by a name far before it; an article by the next word. For
every head, before and after training, the study measures how often the head points at the deciding word, its weight on
that word, how much the heads of a layer differ, and the loss of accuracy without the head. The row `one_head` has one
head as wide as four. The row `reviews` is a causal language model that reads film reviews by character; its attention
distance is measured by layer.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PERPLEXITY, Column, fixed, significant
from attention_research.studies.competence import Competence

from ...haviv2022.schemes import CHARACTERS, UNROLLED
from .figures import draw_heads, draw_maps
from .measures import measure_blanks, measure_distances
from .verdicts import VERDICTS

CONFIG = "configs/copying/recurrent.py"


def blanks(num_heads: int) -> dict[str, Any]:
    """The overrides of a Transformer with three encoder and two decoder layers that fills in the blanks."""
    steps = (("norm", "self_attention", "dropout", "residual"), ("norm", "feed_forward", "dropout", "residual"))
    cross = ("norm", "cross_attention", "dropout", "residual")
    model = {
        "kind": "transformer", "num_layers": 3, "width": 64, "num_heads": num_heads, "dropout_rate": 0.0,
        "feed_forward": {"kind": "dense", "hidden_width": 128},
        "encoder": {"steps": steps, "final_norm": True},
        "decoder": {"num_layers": 2, "steps": (steps[0], cross, steps[1]), "final_norm": True},
    }  # fmt: skip
    return {
        "vocabulary_size": 64,
        "max_length": 32,
        "data": {"kind": "blanks", "max_phrases": 4, "batching": {"kind": "buckets", "boundaries": (32,)}},
        "model": model,
        "training.learning_rate": 0.5,
        "training.schedule": {"kind": "noam", "warmup_steps": 200},
    }


REVIEWS = {
    **CHARACTERS,
    "max_length": 128,
    "task": {"kind": "text_to_text"},
    "model": {"kind": "transformer_decoder", "num_layers": 4, "width": 64, "num_heads": 4, "dropout_rate": 0.0,
              "feed_forward": {"kind": "dense", "hidden_width": 256, "activation": "gelu"}},
    "training.batch_size": 16,
    "training.schedule": {"kind": "linear", "warmup_steps": 200},
    "evaluation": {"kind": "perplexity", "examples": 512, "batch_size": 32},
    **UNROLLED,
}  # fmt: skip
LARGE = ("cpu", "gpu")
SMALL = {"model.width": 16, "data.train_examples": 200}
ON_BLANKS, ON_REVIEWS = (train, measure(measure_blanks)), (train, evaluate, measure(measure_distances))
STUDY = Study(
    rows=(
        Row("blanks", "blanks, 4 heads", blanks(4), at={"smoke": {**blanks(4), **SMALL}}, stages=ON_BLANKS),
        Row("one_head", "blanks, 1 head", blanks(1), scales=LARGE, stages=ON_BLANKS),
        Row("reviews", "film reviews, 4 heads", REVIEWS, at={"gpu": {**REVIEWS, "training.steps": 10_000}},
            scales=LARGE, stages=ON_REVIEWS),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, settings={"examples": 16}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, replicas=True, settings={"examples": 256}),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.steps": 10_000}, seeds=3, settings={"examples": 1024}),
    },
    columns=(
        Column("measure.accuracy_syntax", "verb accuracy", fixed(2), better="higher"),
        Column("measure.accuracy_entity", "pronoun accuracy", fixed(2), better="higher"),
        Column("measure.accuracy_local", "article accuracy", fixed(2), better="higher"),
        Column("measure.best_syntax", "best head, subject", fixed(2), better="higher"),
        Column("measure.best_entity", "best head, name", fixed(2), better="higher"),
        Column("measure.divergence", "divergence of heads, bits", fixed(2)),
        Column("measure.spared", "removable heads, %", fixed(0, 100)),
        Column("measure.first_distance", "distance, first layer", significant(2)),
        Column("measure.last_distance", "distance, last layer", significant(2)),
        PERPLEXITY,
    ),
    claims="../../claims.csv",
    competence=(
        Competence("blanks", "measure.accuracy_syntax", line=0.9, higher=True, rows=("blanks", "one_head")),
        Competence("blanks", "measure.accuracy_entity", line=0.9, higher=True, rows=("blanks", "one_head")),
        Competence("blanks", "measure.accuracy_local", line=0.9, higher=True, rows=("blanks", "one_head")),
        Competence(
            "reviews",
            "evaluate.perplexity",
            "trigram",
            claims=("early-local-deep-long", "heads-look-at-different-things"),
            rows=("reviews",),
        ),
    ),
    verdicts=VERDICTS,
    figures=(draw_heads, draw_maps),
    notes=(
        "Blanks: generated sentences; chance is 0.5. Best head: how often it points at the deciding word. A head is "
        "removable if no link loses more than 0.01 of accuracy without it.",
    ),
)  # fmt: skip
