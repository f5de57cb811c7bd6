"""Strings of user interfaces, French into English: the rows of real text, which the studies of this paper share.

Rows ending in -30 are trained on strings of at most `SHORT` word pieces, rows ending in -50 on strings of at most
`LONG`. These are 73 % and 92 % of the training strings; the paper has 30 and 50 words. All rows have the same recipe.
Its width, dropout, learning rate and number of updates were chosen by the validation loss of RNNsearch-50: 2.07, and
2.41 with half the width, dropout 0.2, twice the rate and 6,000 updates. The scale `smoke` has a few Bible verses.
"""

from __future__ import annotations

from typing import Any

from attention_research.analysis.by_length import measure as by_length
from attention_research.studies import Row, evaluate, measure, train
from attention_research.studies.competence import Competence

from .interventions import measure as interventions

SHORT, LONG = 16, 32
#: The training lengths of the verses of `smoke`.
VERSES = {SHORT: 24, LONG: 32}
STRINGS: dict[str, Any] = {
    "vocabulary_size": 2000,
    "data": {
        "name": "ui_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (8, 12, 16, 20, 24, 32)},
    },
    "model.dropout_rate": 0.4,
    "training.steps": 8000,
    "training.batch_size": 64,
    "training.learning_rate": 0.005,
    "training.schedule": {"kind": "linear", "warmup_steps": 800},
    "training.checkpoint_every": 8000,
    "training.log_every": 50,
    "evaluation": {"average": 1, "near": 0.6},
}
#: The sizes of `cpu`: twice those of the config.
SIZES: dict[str, Any] = {
    "model.width": 256, "model.embedding_width": 256, "model.decoder.readout_width": 128,
    "model.alignment.score.attention_width": 256,
}  # fmt: skip
#: Without attention: the last state of the encoder is the context of every step.
ENCDEC = {"model.encoder": {"kind": "unidirectional"}, "model.alignment": {"kind": "last_state"}}
#: Strings of fewer than 4 words have hardly any sequence of 4 words, which BLEU counts.
STAGES = (
    train,
    evaluate,
    measure(by_length, edges=(4, 6, 8, 10, 13, 18, 61), longest=96, fitting=LONG),
    measure(interventions, longest=LONG),
)
NOTE = (
    f"Strings of user interfaces, French into English, are trained up to {SHORT} word pieces (-30) and {LONG} (-50), "
    "with Adam instead of the paper's Adadelta."
)


def criteria(*rows: str, claims: tuple[str, ...] = ()) -> tuple[Competence, Competence]:
    """When the claims may be judged. Each of these rows must be better than a trigram model of the target before it can
    be better than another row. RNNsearch-50 must also be better than a translation memory on strings that are far from
    all training strings."""
    return (
        Competence("search", "evaluate.perplexity", "trigram", claims=claims, rows=rows),
        Competence(
            "search", "evaluate.far_bleu", "memory_else_copy", margin=3, higher=True, claims=claims, rows=("search",)
        ),
    )


def at_scales(changes: dict[str, Any], length: int) -> dict[str, dict[str, Any]]:
    """By scale, the overrides of a row that is trained on strings of at most `length` pieces."""
    ours = {**STRINGS, "max_length": length}
    text = {
        "smoke": {"max_length": VERSES[length]},
        "cpu": {**ours, **SIZES},
        "gpu": {**ours, "training.batch_size": 128},
    }
    return {scale: {**own, **changes} for scale, own in text.items()}


def row(id: str, name: str, changes: dict[str, Any], length: int, **more: Any) -> Row:
    """A row of real text."""
    return Row(id, name, at=at_scales(changes, length), **more)
