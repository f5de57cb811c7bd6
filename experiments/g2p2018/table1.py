"""g2p-seq2seq (CMU Sphinx, 2016 to 2019): letters to phonemes on the whole CMU Pronouncing Dictionary.

    attention-research reproduce g2p2018/table1 --scale=paper

The published numbers are those of the README of github.com/cmusphinx/g2p-seq2seq in the column "CMUdict latest": the
dictionary without stress, in the split that its code makes (`pronunciation/en_sphinx`). The dictionary has grown a
little since. Two rows have published numbers and the published size. Seven rows change the attention of the recurrent
model of that size. They read the word in both directions and not reversed, since monotonic attention needs the order of
the sounds.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import LOSS, PARAMETERS, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude, margin_of, no_worse

CONFIG = "configs/pronunciation/sphinx.py"
PHONEMES, WORDS, LINES = "evaluate.error_rate", "evaluate.word_error_rate", "evaluate.line_error_rate"
BOTH_DIRECTIONS = {
    "model.reverse_source": False,
    "model.encoder.kind": "bidirectional",
    "model.decoder.start": {"kind": "projected"},
}
WIDE = {"model.width": 256, "model.embedding_width": 256, "model.dropout_rate": 0.2}
#: Three bounds of the lengths in a batch instead of two: fewer padded places.
NARROW = {"data.batching.boundaries": (8, 10, 13)}
ADDITIVE = {"kind": "additive", "attention_width": 64}
#: The attention of the rows with 2 layers of 64 cells.
ALIGNMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "soft": ("soft", {"kind": "global", "score": ADDITIVE}),
    "monotonic": ("monotonic", {"kind": "monotonic", "attention_width": 64}),
    "mocha": ("MoChA w = 4", {"kind": "mocha", "attention_width": 64, "score": ADDITIVE, "chunk_size": 4}),
    "local_m": ("local-m, D = 3", {"kind": "local_monotonic", "half_width": 3}),
    "local_p": ("local-p, D = 3", {"kind": "local_predictive", "half_width": 3}),
}
#: The scales with models of the published sizes.
SIZED = ("quick", "paper")


def lasting(steps: int, warmup: int) -> dict[str, int]:
    """The updates of a trial, with ten checkpoints."""
    tenth = steps // 10
    return {
        "training.steps": steps,
        "training.eval_every": tenth,
        "training.checkpoint_every": tenth,
        "training.schedule.warmup_steps": warmup,
    }


def row(id: str, name: str, changes: dict[str, Any], steps: int, warmup: int, **more: Any) -> Row:
    """A row with its updates. `quick` has a tenth of them."""
    at = {"quick": {**changes, **lasting(steps // 10, warmup // 10)}, "smoke": changes}
    return Row(id, name, {**changes, **lasting(steps, warmup)}, at=at, **more)


def alignment(id: str) -> Row:
    """The row of an attention, which trains for 30 epochs."""
    name, section = ALIGNMENTS[id]
    changes = {**BOTH_DIRECTIONS, "model.alignment": section}
    made = row(id, f"GRU 2 x 64, both directions, {name}", {**changes, **NARROW}, steps=54_000, warmup=1000)
    return dataclasses.replace(made, at={**made.at, "smoke": changes})


def latent(transition: str, name: str) -> Row:
    """The row of an exact hard attention (Wu, Shapiro & Cotterell 2018, Wu & Cotterell 2019) with 2 layers of 64 cells,
    which trains for 30 epochs."""
    model = {
        "kind": "latent_alignment", "width": 64, "embedding_width": 64, "num_layers": 2, "dropout_rate": 0.0,
        "cell": {"kind": "gru"}, "transition": {"kind": transition},
    }  # fmt: skip
    changes = {"model": model, **NARROW}
    made = row(f"hard_{transition}", f"GRU 2 x 64, both directions, {name}", changes, steps=54_000, warmup=1000)
    small = {"model": {**model, "width": 16, "embedding_width": 16}}
    return dataclasses.replace(made, at={**made.at, "smoke": small})


def wide() -> Row:
    """The recurrent model with soft attention and 256 cells, which trains for 10 epochs."""
    changes = {**BOTH_DIRECTIONS, **NARROW, **WIDE, "model.alignment": ALIGNMENTS["soft"][1]}
    return row("soft_256", "GRU 2 x 256, both directions, soft", changes, 18_000, 1000, scales=SIZED)


def pre_norm(*layers: str) -> dict[str, Any]:
    """The section of a stack of pre-norm blocks: x + Dropout(f(LN(x))) for each layer f."""
    steps = tuple(("norm", layer, "dropout", "residual") for layer in layers)
    return {"unroll": True, "steps": steps, "final_norm": True}


def transformer(width: int) -> Row:
    """The variant `transformer` of the config at a width, which trains for 10 epochs."""
    model = {
        "kind": "transformer", "num_layers": 3, "width": width, "num_heads": 4, "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 2 * width},
        "encoder": pre_norm("self_attention", "feed_forward"),
        "decoder": pre_norm("self_attention", "cross_attention", "feed_forward"),
    }  # fmt: skip
    changes = {"model": model, **NARROW, "training.batch_size": 256, "training.optimizer": {"kind": "adamw"}}
    return row(f"transformer_{width}", f"Transformer 3 x {width}", changes, steps=4500, warmup=450, scales=SIZED)


ROWS = (
    Row("wfst", "Phonetisaurus (weighted finite-state transducer)", scales=()),
    row("gru_64", "GRU 2 x 64, reversed source", {}, steps=80_000, warmup=1000),
    Row("gru_512", "GRU 2 x 512, reversed source", scales=()),
    *map(alignment, ALIGNMENTS),
    latent("independent", "exact hard"),
    latent("monotonic", "exact hard monotonic"),
    wide(),
    transformer(128),
    transformer(256),
)


def transformer_is_best(results: Results) -> Verdict:
    """The Transformer with width 256 has fewer wrong words than each recurrent model with soft attention."""
    return conclude(
        {f"against {name}": compare(results, "transformer_256", row, WORDS)
         for row, name in (("gru_64", "GRU 2 x 64"), ("soft_256", "GRU 2 x 256"))}
    )  # fmt: skip


def exact_hard_is_no_worse(results: Results) -> Verdict:
    """Exact hard attention, free or monotonic, has at most a point more wrong words than soft attention."""
    cases = {"exact hard": "hard_independent", "exact hard monotonic": "hard_monotonic"}
    margin = margin_of(results, "exact-hard-attention-suffices")
    return conclude({name: no_worse(results, row, "soft", WORDS, margin) for name, row in cases.items()})


def monotonic_suffices(results: Results) -> Verdict:
    """Hard monotonic attention and MoChA have at most a point more wrong words than soft attention."""
    margin = margin_of(results, "monotonic-suffices-on-the-dictionary")
    return conclude(
        {ALIGNMENTS[row][0]: no_worse(results, row, "soft", WORDS, margin) for row in ("monotonic", "mocha")}
    )


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "quick": Scale(f"{CONFIG}:gru", seeds=1, note="A tenth of the updates of `paper`."),
        "paper": Scale(
            f"{CONFIG}:gru",
            seeds=3,
            note="44 epochs for the row GRU 2 x 64, as published, 30 for each attention, 10 for the larger models (the "
            "published Transformer had up to 780).",
        ),
    },
    columns=(
        PARAMETERS,
        LOSS,
        Column(PHONEMES, "phoneme errors, %", fixed(2), better="lower"),
        Column(WORDS, "word errors, %", fixed(1), better="lower"),
        Column(LINES, "line errors, %", fixed(1), better="lower"),
    ),
    published="table1.csv",
    compared={WORDS: "word errors, %", LINES: "line errors, %"},
    claims="../claims.csv",
    competence=(Competence("soft", PHONEMES, floor="token_by_token", margin=10.0),),
    verdicts={
        "transformer-best-on-sounds": transformer_is_best,
        "monotonic-suffices-on-the-dictionary": monotonic_suffices,
        "exact-hard-attention-suffices": exact_hard_is_no_worse,
    },
    notes=(
        "Word errors: the share of words whose output is none of the pronunciations of the word. Line errors count a "
        "word once for each of its pronunciations, as the released code of the Transformer does.",
        "Phonetisaurus 0.3.0 with its default settings, trained and scored on this split by `python -m "
        "benchmarks.pronunciation`, has 29.66 % word errors, 29.15 % line errors and 7.27 % phoneme errors.",
    ),
)
